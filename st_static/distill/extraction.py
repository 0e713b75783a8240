"""Word vectors and sentence vectors from one pass of the teacher (paper section 2.1)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from tokenizers import Tokenizer
from torch.nn import functional as F

from st_static.distill.alignment import WordBags, WordSpans, align, find_words, word_bags
from st_static.distill.engines import Engine
from st_static.distill.pieces import TokensAlone
from st_static.distill.stages import Figures, require_disk
from st_static.distill.teacher import (
    Teacher,
    TokenBatch,
    is_out_of_memory,
    padded_tokens,
    token_batches,
)
from st_static.distill.teacher_shards import (
    Shard,
    ShardFiles,
    cut_shards,
    merge_sums,
    run_shards,
    summed,
)
from st_static.distill.word_sums import WordSums, WordVectors
from st_static.distill.work_directory import SENTENCE_VECTORS_FILE, Selected, WorkDirectory
from st_static.files import Arrays, create_array, read_arrays
from st_static.model.vectors import has_vector
from st_static.tokens.ragged import Ragged
from st_static.tokens.tokenizer import SPECIAL_TOKENS, Normalization

logger = logging.getLogger(__name__)

_SUMS_FILE = "sums.safetensors"


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


class Texts(Protocol):
    """What the teacher reads: a work directory, which other processes can open, too."""

    @property
    def selected(self) -> Selected:
        """The sentences, [S]."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The student's tokenizer."""


class SentenceShards:
    """The teacher's pass over the selected sentences, in shards.

    A shard gives `sentences`, the vectors of its sentences, and the arrays of `WordVectors`.

    Args:
        teacher: The teacher.
        texts: What it reads.
    """

    def __init__(self, teacher: Teacher, texts: Texts) -> None:
        self._teacher, self._texts = teacher, texts

    def cut(self) -> list[Shard]:
        """All shards."""
        return cut_shards(*sentence_batches(self._teacher, self._texts.selected))

    def __call__(self, shard: Shard) -> Arrays:
        """Run the teacher over one shard."""
        texts = self._texts
        encoded = list(
            encode_batches(self._teacher, texts.tokenizer, texts.selected, shard.batches)
        )
        words = (part for batch in encoded for part in batch.words)
        vectors = np.concatenate([batch.sentences for batch in encoded])
        return {"sentences": vectors, **summed(words, self._teacher.token_dimension)._asdict()}


def extract(teacher: Teacher, texts: Texts, folder: Path, engine: Engine) -> WordSums:
    """Run the teacher over all selected sentences.

    Each shard leaves a file; an interrupted run goes on with those that are missing.

    Args:
        teacher: The teacher.
        texts: The sentences, [S], and the student's tokenizer.
        folder: Where the sums and the sentence vectors [S, d], `sentence_vectors.npy`, go.
        engine: What runs it.

    Returns:
        The sums over all sentences.
    """
    work, files = SentenceShards(teacher, texts), ShardFiles(folder, "shard")
    shards = work.cut()
    if not (folder / _SUMS_FILE).exists():
        run_shards(work, shards, files, engine, "teacher")
        _gather_sentences(folder, teacher.dimension, shards, files)
        n_tokens, paths = texts.tokenizer.get_vocab_size(), [files.of(shard) for shard in shards]
        merge_sums(paths, n_tokens, teacher.token_dimension, engine).save(folder / _SUMS_FILE)
    files.remove(shards)  # only here, for else a kill in between would lose them
    return WordSums.load(folder / _SUMS_FILE)


def _gather_sentences(
    folder: Path, dimension: int, shards: Sequence[Shard], files: ShardFiles
) -> None:
    """Write the sentence vectors of all shards into one file."""
    file, shape = folder / SENTENCE_VECTORS_FILE, (shards[-1].rows.stop, dimension)
    vectors = create_array(file, np.float16, shape)
    for shard in shards:
        with safe_open(files.of(shard), framework="numpy") as arrays:
            vectors[shard.rows] = arrays.get_tensor("sentences")
    vectors.flush()


def extract_table(
    folder: Path, teacher: Teacher, work: WorkDirectory, engine: Engine
) -> tuple[NDArray[np.float32], Figures]:
    """The stage: the teacher's vector of every token, and of every selected sentence.

    A token that stands in no selected sentence gets the teacher's vector of it alone.

    Args:
        folder: Where the stage's files go, the sentence vectors among them.
        teacher: The teacher.
        work: The stages before: vocabulary and selection.
        engine: What runs the teacher.

    Returns:
        The word table [V, d], zero for special tokens; how much the teacher read.

    Raises:
        ValueError: The disk is too small.
    """
    selected, tokenizer = work.selected, work.tokenizer
    require_disk(folder, _bytes_needed(teacher, work), "The teacher's vectors")
    sums = extract(teacher, work, folder, engine)
    table = sums.means()
    alone = np.flatnonzero(sums.counts == 0)[len(SPECIAL_TOKENS) :]
    names = [str(tokenizer.id_to_token(int(i))) for i in alone]
    normalization = Normalization.of(tokenizer)
    table[alone] = _vectors_alone(TokensAlone(teacher, names, normalization), folder, engine)
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


def _vectors_alone(work: TokensAlone, folder: Path, engine: Engine) -> NDArray[np.float32]:
    files = ShardFiles(folder, "alone")
    run_shards(work, work.shards, files, engine, "teacher, word pieces")
    return work.gather(read_arrays(files.of(shard)) for shard in work.shards)


def _bytes_needed(teacher: Teacher, work: WorkDirectory) -> int:
    """What the stage writes: vectors of sentences and words, in shards and merged."""
    selected, n_tokens = work.selected, work.tokenizer.get_vocab_size()
    words = selected.words
    shards = SentenceShards(teacher, work).cut()
    edges = [words.offsets[[shard.rows.start, shard.rows.stop]] for shard in shards]
    in_shards = sum(len(np.unique(words.values[start:stop])) for start, stop in edges)
    sentences = 2 * len(selected.lengths) * teacher.dimension  # float16, and all else float32
    # Of tokens the sums, the vectors of tokens alone and the table.
    tokens = 4 * (in_shards + 3 * n_tokens) * max(teacher.token_dimension, teacher.dimension)
    return 2 * sentences + tokens
