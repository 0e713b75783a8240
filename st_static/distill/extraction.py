"""Word vectors and sentence vectors from one pass of the teacher (paper section 2.1)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch.nn import functional as F

from st_static.distill.alignment import WordBags, WordSpans, align, find_words, word_bags
from st_static.distill.checkpoints import Clock, checkpoints
from st_static.distill.pieces import vectors_alone
from st_static.distill.progress import bar
from st_static.distill.stages import Figures, require_disk
from st_static.distill.teacher import (
    Teacher,
    TokenBatch,
    is_out_of_memory,
    padded_tokens,
    token_batches,
)
from st_static.distill.word_sums import WordSums, WordVectors
from st_static.distill.work_directory import SENTENCE_VECTORS_FILE, Selected, WorkDirectory
from st_static.files import Arrays, create_array, read_arrays, write_arrays
from st_static.model.vectors import has_vector
from st_static.tokens.ragged import Ragged
from st_static.tokens.tokenizer import SPECIAL_TOKENS, Normalization

logger = logging.getLogger(__name__)

_SUMS_FILE = "sums.safetensors"
_ALONE_FILE = "alone.safetensors"


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


def extract(
    teacher: Teacher,
    tokenizer: Tokenizer,
    selected: Selected,
    folder: Path,
    clock: Clock = time.monotonic,
) -> WordSums:
    """Run the teacher over all selected sentences.

    What is done is written about twice a minute, and when it is interrupted; an interrupted run
    goes on from there.

    Args:
        teacher: The teacher.
        tokenizer: The student's tokenizer.
        selected: The sentences, [S].
        folder: Where the sums and the sentence vectors [S, d], `sentence_vectors.npy`, go.
        clock: Tells the seconds from one checkpoint to the next.

    Returns:
        The sums over all sentences.
    """
    batches, tokens = sentence_batches(teacher, selected)
    state = _State(folder, WordSums(tokenizer.get_vocab_size(), teacher.token_dimension))
    file, shape = folder / SENTENCE_VECTORS_FILE, (len(selected.lengths), teacher.dimension)
    begun = state.done > 0
    vectors = np.load(file, mmap_mode="r+") if begun else create_array(file, np.float16, shape)

    def write() -> None:
        """Write what is done."""
        vectors.flush()  # before it is told how far they are whole
        state.write()

    encoded = encode_batches(teacher, tokenizer, selected, batches[state.done :])
    with (
        bar("teacher", sum(tokens), "token", initial=sum(tokens[: state.done])) as progress,
        checkpoints(write, clock) as checkpoint,
    ):
        for batch in encoded:
            # All of a batch or nothing: a sum does not tell what was added to it twice, or half.
            with checkpoint.whole():
                vectors[batches[state.done]] = batch.sentences
                state.add(batch.words)
            progress.update(tokens[state.done - 1])
    return state.sums


def extract_table(
    folder: Path, teacher: Teacher, work: WorkDirectory
) -> tuple[NDArray[np.float32], Figures]:
    """The stage: the teacher's vector of every token, and of every selected sentence.

    A token that stands in no selected sentence gets the teacher's vector of it alone.

    Args:
        folder: Where the stage's files go, the sentence vectors among them.
        teacher: The teacher.
        work: The stages before: vocabulary and selection.

    Returns:
        The word table [V, d], zero for special tokens; how much the teacher read.

    Raises:
        ValueError: The disk is too small.
    """
    selected, tokenizer = work.selected, work.tokenizer
    n_tokens, dimension = tokenizer.get_vocab_size(), teacher.dimension
    # Sentence vectors in float16. In float32: the sums, their next checkpoint, the vectors of
    # tokens alone and the table.
    needed = 2 * len(selected.lengths) * dimension + 4 * 4 * n_tokens * dimension
    require_disk(folder, needed, "The teacher's vectors")
    sums = extract(teacher, tokenizer, selected, folder)
    table = sums.means()
    alone = np.flatnonzero(sums.counts == 0)[len(SPECIAL_TOKENS) :]
    names = [str(tokenizer.id_to_token(int(i))) for i in alone]
    normalization = Normalization.of(tokenizer)
    table[alone] = vectors_alone(teacher, names, normalization, folder / _ALONE_FILE)
    # Of the means, not of each sentence's vectors: the layers are linear, and a mean of vectors
    # goes through them as they do. Their bias would turn rows of zeros into vectors.
    known = has_vector(table)
    table[known] = teacher.to_sentence_space(table[known])
    first_piece = work.words.num_rows + len(SPECIAL_TOKENS)
    return table, {
        "dtype": str(teacher.dtype),
        "teacher_tokens": int(selected.lengths.sum()),
        "words_alone": int((alone < first_piece).sum()),
        "pieces_alone": int((alone >= first_piece).sum()),
    }


class _State:
    """The sums of the batches that are done; read from their file, if there is one."""

    def __init__(self, folder: Path, sums: WordSums) -> None:
        self.file = folder / _SUMS_FILE
        self.sums = sums
        self.done = 0
        saved = read_arrays(self.file) if self.file.exists() else {}
        # Without this key, they were left by a version that cut other batches.
        if "batches_done" in saved:
            sums.sums, sums.counts = saved["sums"], saved["counts"]
            self.done = int(saved["batches_done"])

    def add(self, words: Iterable[WordVectors]) -> None:
        """Add the words of the next batch."""
        for part in words:
            self.sums.add(part)
        self.done += 1

    def write(self) -> None:
        """Write the sums, and how many batches they hold."""
        arrays: Arrays = {"sums": self.sums.sums, "counts": self.sums.counts}
        arrays["batches_done"] = np.array(self.done)
        write_arrays(self.file, arrays)
