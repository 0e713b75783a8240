"""Word and sentence vectors of batches, from one pass of the teacher (paper section 2.1)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch.nn import functional as F

from st_static.distill.alignment import WordBags, WordSpans, align, find_words, word_bags
from st_static.distill.teacher import Teacher, TokenBatch
from st_static.distill.word_sums import WordSums, WordVectors
from st_static.distill.work_directory import Selected
from st_static.tokens.ragged import Ragged

logger = logging.getLogger(__name__)


class Prepared(NamedTuple):
    """A batch that is ready for the teacher.

    Attributes:
        tokens: The teacher's tokens, [B, T].
        bags: What to sum up for each word.
    """

    tokens: TokenBatch
    bags: WordBags


class Encoded(NamedTuple):
    """What the teacher gives for a batch.

    Attributes:
        sentences: The sentence vectors, [B, d].
        words: What is added to the sums, in this order; several where the batch was halved.
    """

    sentences: NDArray[np.float16]
    words: list[WordVectors]


def prepare(
    teacher: Teacher, tokenizer: Tokenizer, sentences: Sequence[str], words: Ragged
) -> Prepared:
    """Tokenise sentences [B] for the teacher and find their selected words.

    Args:
        teacher: The teacher.
        tokenizer: The student's tokenizer.
        sentences: The sentences.
        words: For each sentence, the words that it was selected for, [B rows].
    """
    tokens = teacher.tokenize(list(sentences))
    found = find_words(tokenizer, sentences)
    # (sentence, word) as one number, to keep only the occurrences of selected pairs.
    stride = tokenizer.get_vocab_size()
    selected = words.row_of_value * stride + words.values
    wanted = np.isin(found.sentence * stride + found.word, selected)
    found = WordSpans(*(column[wanted] for column in found))
    return Prepared(tokens, word_bags(align(tokens, found), found))


def encode_batch(teacher: Teacher, batch: Prepared) -> Encoded:
    """Run the teacher on one batch."""
    tokens, sentences = teacher.forward(
        torch.from_numpy(batch.tokens.input_ids), torch.from_numpy(batch.tokens.attention_mask)
    )
    # Half of the disk and memory: rounding to float16 changes a cosine by less than 1e-4, and the
    # loss divides cosines by a temperature of 0.05.
    vectors: NDArray[np.float16] = sentences.to(torch.float16).cpu().numpy()
    words = WordVectors(batch.bags.word, sum_tokens(tokens, batch.bags), batch.bags.counts)
    return Encoded(vectors, [words])


@torch.inference_mode()
def sum_tokens(tokens: torch.Tensor, bags: WordBags) -> NDArray[np.float32]:
    """Sum up weighted token vectors [B, T, h] for each word, [U, h]."""
    if not len(bags.word):
        return np.zeros((0, tokens.shape[-1]), dtype=np.float32)
    device = tokens.device
    sums = F.embedding_bag(
        torch.from_numpy(bags.tokens.values).to(device),
        tokens.flatten(0, 1).float(),  # a bfloat16 sum would keep two or three digits
        torch.from_numpy(bags.tokens.offsets[:-1].astype(np.int32)).to(device),
        mode="sum",
        per_sample_weights=torch.from_numpy(bags.weights).to(device),
    )
    return sums.cpu().numpy()


def encode_batches(
    teacher: Teacher, tokenizer: Tokenizer, selected: Selected, batches: Sequence[slice]
) -> Iterator[Encoded]:
    """Run the teacher over batches of the selected sentences.

    While the teacher works on one batch, the next is tokenised in a second thread.

    Args:
        teacher: The teacher.
        tokenizer: The student's tokenizer.
        selected: The sentences, [S].
        batches: Which sentences are in each batch.

    Yields:
        For each batch, its vectors.
    """
    with ThreadPoolExecutor(1) as thread:
        parts = map(selected.rows, batches)
        part = next(parts, None)
        pending = part and thread.submit(_prepare_part, teacher, tokenizer, part)
        while part and pending:
            batch, this, part = pending.result(), part, next(parts, None)
            pending = part and thread.submit(_prepare_part, teacher, tokenizer, part)
            yield _encode_halving(teacher, tokenizer, this, batch)


def _prepare_part(teacher: Teacher, tokenizer: Tokenizer, part: Selected) -> Prepared:
    """What the teacher is run on, for one batch."""
    return prepare(teacher, tokenizer, part.texts.to_pylist(), part.words)


def _encode_halving(
    teacher: Teacher, tokenizer: Tokenizer, part: Selected, batch: Prepared
) -> Encoded:
    """The batch's vectors; where memory runs out, those of its halves."""
    try:
        return encode_batch(teacher, batch)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error) or len(part.texts) == 1:
            raise
    # Outside the except block, whose traceback would keep the large tensors alive.
    logger.warning("%d sentences do not fit into memory: halving", len(part.texts))
    middle = len(part.texts) // 2
    one, other = (
        _encode_halving(teacher, tokenizer, half, _prepare_part(teacher, tokenizer, half))
        for half in (part.rows(slice(middle)), part.rows(slice(middle, None)))
    )
    return Encoded(np.concatenate([one.sentences, other.sentences]), one.words + other.words)


def extract_rows(
    teacher: Teacher, tokenizer: Tokenizer, selected: Selected, sums: WordSums
) -> Iterator[NDArray[np.float16]]:
    """Run the teacher over all selected sentences, without files.

    Args:
        teacher: The teacher.
        tokenizer: The student's tokenizer.
        selected: The sentences, [S].
        sums: Where the words' vectors are added.

    Yields:
        Sentence vectors, [B, d], in the order of the sentences.
    """
    batches, _ = sentence_batches(teacher, selected)
    for encoded in encode_batches(teacher, tokenizer, selected, batches):
        for words in encoded.words:
            sums.add(words)
        yield encoded.sentences


def sentence_batches(teacher: Teacher, selected: Selected) -> tuple[list[slice], list[int]]:
    """All selected sentences, cut into batches, and the tokens of each batch with its padding."""
    lengths = selected.lengths + sum(map(len, teacher.surroundings()))
    batches = token_batches(lengths, teacher.batch_tokens)
    return batches, padded_tokens(batches, lengths)


def token_batches(lengths: NDArray[np.integer], batch_tokens: int) -> list[slice]:
    """Cut sentences that are sorted by length into batches of at most `batch_tokens` tokens.

    Args:
        lengths: Tokens of each sentence, special tokens included, ascending, [S].
        batch_tokens: Most tokens in a batch, padding included; a longer sentence goes alone.

    Example:
        >>> token_batches(np.array([2, 2, 3, 9]), 6)
        [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    batches, start = [], 0
    for stop in range(1, len(lengths) + 1):
        if stop == len(lengths) or (stop - start + 1) * int(lengths[stop]) > batch_tokens:
            batches.append(slice(start, stop))
            start = stop
    return batches


def padded_tokens(batches: Sequence[slice], lengths: NDArray[np.integer]) -> list[int]:
    """Tokens of each batch, padding included: what the teacher's time goes by.

    Example:
        >>> padded_tokens([slice(0, 2), slice(2, 3)], np.array([1, 2, 3]))
        [4, 3]
    """
    return [(batch.stop - batch.start) * int(lengths[batch.stop - 1]) for batch in batches]


def is_out_of_memory(error: Exception) -> bool:
    """Tell whether an error says that the memory of the processor or the GPU is full."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        "can't allocate memory" in str(error) or "out of memory" in str(error)
    )
