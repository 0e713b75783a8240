"""Word vectors and sentence vectors from one pass of the teacher (paper section 2.1)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch.nn import functional as F
from tqdm import tqdm

from st_static.build.alignment import WordBags, WordSpans, align, find_words, word_bags
from st_static.build.teacher import Teacher, TokenBatch, is_out_of_memory, token_batches
from st_static.model.files import read_arrays, write_arrays
from st_static.model.ragged import Ragged

logger = logging.getLogger(__name__)

SHARD_SENTENCES = 8192
SENTENCE_VECTORS_FILE = "sentence_vectors.npy"
_SUMS_FILE = "sums.safetensors"


class Prepared(NamedTuple):
    """A batch that is ready for the teacher.

    Attributes:
        tokens: The teacher's tokens, [B, T].
        bags: What to sum up for each word.
    """

    tokens: TokenBatch
    bags: WordBags


class WordSums:
    """Sums of word vectors; adding is associative and commutative, up to rounding.

    Args:
        n_tokens: Rows, one for each token id of the student, V.
        dimension: The dimension of token vectors, h.

    Attributes:
        sums: Sum over sentences of each word's vector, [V, h].
        counts: Number of those sentences, [V].
    """

    def __init__(self, n_tokens: int, dimension: int) -> None:
        self.sums = np.zeros((n_tokens, dimension), dtype=np.float32)
        self.counts = np.zeros(n_tokens, dtype=np.int64)

    def add(
        self, word: NDArray[np.int64], sums: NDArray[np.float32], counts: NDArray[np.int64]
    ) -> None:
        """Add the sums [U, h] and counts [U] of distinct words [U]."""
        self.sums[word] += sums
        self.counts[word] += counts

    def means(self) -> NDArray[np.float32]:
        """The mean vector of each word, [V, h]; zero for a word without a sentence."""
        counts = np.maximum(self.counts, 1).astype(np.float32)
        means: NDArray[np.float32] = self.sums / counts[:, None]
        return means


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


def encode_batch(teacher: Teacher, batch: Prepared, sums: WordSums) -> NDArray[np.float16]:
    """Run the teacher on one batch.

    Args:
        teacher: The teacher.
        batch: The batch, of B sentences.
        sums: Where the words' vectors are added.

    Returns:
        The sentence vectors, [B, d].
    """
    tokens, sentences = teacher.forward(
        torch.from_numpy(batch.tokens.input_ids), torch.from_numpy(batch.tokens.attention_mask)
    )
    vectors: NDArray[np.float16] = sentences.to(torch.float16).cpu().numpy()
    sums.add(batch.bags.word, sum_tokens(tokens, batch.bags), batch.bags.counts)
    return vectors


@torch.inference_mode()
def sum_tokens(tokens: torch.Tensor, bags: WordBags) -> NDArray[np.float32]:
    """Sum up weighted token vectors [B, T, h] for each word, [U, h]."""
    if not len(bags.word):
        return np.zeros((0, tokens.shape[-1]), dtype=np.float32)
    device = tokens.device
    sums = F.embedding_bag(
        torch.from_numpy(bags.tokens.values).to(device),
        tokens.flatten(0, 1).float(),
        torch.from_numpy(bags.tokens.offsets[:-1].astype(np.int32)).to(device),
        mode="sum",
        per_sample_weights=torch.from_numpy(bags.weights).to(device),
    )
    return sums.cpu().numpy()


class Selected(NamedTuple):
    """The sentences that the teacher reads, sorted by length.

    Attributes:
        texts: The sentences, [S].
        lengths: Teacher tokens of each, ascending, [S].
        words: For each, the words that it was selected for, [S rows].
    """

    texts: pa.Array
    lengths: NDArray[np.int32]
    words: Ragged

    def rows(self, rows: slice) -> Selected:
        """The given sentences."""
        numbers = np.arange(len(self.lengths))[rows]
        return Selected(self.texts[rows], self.lengths[rows], self.words.take(numbers))


def extract_rows(
    teacher: Teacher, tokenizer: Tokenizer, selected: Selected, sums: WordSums
) -> Iterator[NDArray[np.float16]]:
    """Run the teacher over some of the selected sentences.

    While the teacher works on one batch, the next is tokenised in a second thread.

    Args:
        teacher: The teacher.
        tokenizer: The student's tokenizer.
        selected: The sentences, [S].
        sums: Where the words' vectors are added.

    Yields:
        Sentence vectors, [B, d], in the order of the sentences.
    """
    n_special = sum(map(len, teacher.surroundings()))
    batches = token_batches(selected.lengths + n_special, teacher.batch_tokens)

    def prepare_rows(part: Selected) -> Prepared:
        """What the teacher is run on, for one batch."""
        return prepare(teacher, tokenizer, part.texts.to_pylist(), part.words)

    with ThreadPoolExecutor(1) as thread:
        parts = [selected.rows(rows) for rows in batches]
        pending = thread.submit(prepare_rows, parts[0])
        for number, part in enumerate(parts):
            batch = pending.result()
            if number + 1 < len(parts):
                pending = thread.submit(prepare_rows, parts[number + 1])
            vectors = None
            try:
                vectors = encode_batch(teacher, batch, sums)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error) or len(part.texts) == 1:
                    raise
            if vectors is not None:
                yield vectors
                continue
            # Outside the except block, whose traceback would keep the large tensors alive.
            logger.warning("%d sentences do not fit into memory: halving", len(part.texts))
            middle = len(part.texts) // 2
            for half in (part.rows(slice(middle)), part.rows(slice(middle, None))):
                smaller = teacher.with_batch_tokens(teacher.batch_tokens // 2)
                yield from extract_rows(smaller, tokenizer, half, sums)


def extract(teacher: Teacher, tokenizer: Tokenizer, selected: Selected, folder: Path) -> WordSums:
    """Run the teacher over all selected sentences, shard by shard.

    After each shard the sums so far are written; an interrupted run goes on from there.

    Args:
        teacher: The teacher.
        tokenizer: The student's tokenizer.
        selected: The sentences, [S].
        folder: Where the sums and the sentence vectors [S, d], `sentence_vectors.npy`, go.

    Returns:
        The sums over all sentences.
    """
    n_sentences = len(selected.lengths)
    sums, done = WordSums(tokenizer.get_vocab_size(), teacher.token_dimension), 0
    state = folder / _SUMS_FILE
    if state.exists():
        saved = read_arrays(state)
        sums.sums, sums.counts, done = saved["sums"], saved["counts"], int(saved["done"])
    vectors = np.lib.format.open_memmap(
        folder / SENTENCE_VECTORS_FILE,
        mode="r+" if done else "w+",
        dtype=np.float16,
        shape=(n_sentences, teacher.dimension),
    )
    with tqdm(total=n_sentences, initial=done, desc="teacher", unit="sentence") as progress:
        # After each shard all sums are written: at most about 50 times.
        shard_size = max(SHARD_SENTENCES, -(-n_sentences // 50))
        for start in range(done, n_sentences, shard_size):
            shard = selected.rows(slice(start, start + shard_size))
            done = start
            for batch in extract_rows(teacher, tokenizer, shard, sums):
                vectors[done : done + len(batch)] = batch
                done += len(batch)
                progress.update(len(batch))
            vectors.flush()
            write_arrays(state, {"sums": sums.sums, "counts": sums.counts, "done": np.array(done)})
    return sums
