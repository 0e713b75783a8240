"""What we use of libraries that they do not promise to keep is there in the installed releases."""

import gc
import importlib
import subprocess
import sys

import pytest

from st_static.dependencies import DependencyError, loading, needed_by, private_name

# Where each name is, and the release that was tested; the module that uses it says the same.
PRIVATE = [
    ("gensim.models", "_fasttext_bin", "gensim 4.4"),
    ("mteb.abstasks.task_metadata:TaskMetadata", "_hf_task_type", "mteb 2.26"),
    ("mteb.results:TaskResult", "_to_hf_benchmark_result", "mteb 2.26"),
    # Overridden: a Trainer that does not ask it would compute a norm of sparse gradients.
    ("transformers:Trainer", "_get_grad_norm", "transformers 5.23"),
]
# In public modules, and in no list of what a library promises.
UNDOCUMENTED = [
    ("datasets.config", "HF_DATASETS_CACHE", "datasets 5.2"),
    ("datasets.naming", "camelcase_to_snakecase", "datasets 5.2"),
    ("gensim.models.doc2vec", "train_document_dbow", "gensim 4.4"),
    ("gensim.models.doc2vec", "train_document_dm", "gensim 4.4"),
    ("huggingface_hub.utils", "parse_ratelimit_headers", "huggingface_hub 2.4"),
    ("huggingface_hub.utils", "validate_repo_id", "huggingface_hub 2.4"),
    ("mteb.models.abs_encoder", "AbsEncoder", "mteb 2.26"),
    ("mteb.models.sentence_transformer_wrapper", "SentenceTransformerEncoderWrapper", "mteb 2.26"),
    ("sentence_transformers.base.sampler", "DefaultBatchSampler", "sentence_transformers 6.2"),
]


@pytest.mark.parametrize(("place", "name", "tested"), [*PRIVATE, *UNDOCUMENTED])
def test_the_installed_release_has(place, name, tested):
    module, _, attribute = place.partition(":")
    if sys.version_info >= (3, 14) and module.startswith("gensim"):
        pytest.skip("gensim 4.4 does not compile for Python 3.14")
    owner = importlib.import_module(module)
    if attribute:
        owner = getattr(owner, attribute)
    assert private_name(owner, name, tested) is not None


def test_a_name_that_is_gone_tells_the_release_to_install():
    with pytest.raises(DependencyError) as error:
        private_name(importlib, "_gone", "mteb 2.26")
    assert str(error.value) == (
        "The installed release of mteb has no _gone, which st_static needs. 2.26 was tested: "
        'pip install "mteb==2.26.*".'
    )


def test_a_missing_module_of_ours_is_no_missing_extra():
    with pytest.raises(ModuleNotFoundError), needed_by("This command", "build"):
        import st_static.nothing  # noqa: F401


def test_a_package_that_other_code_misses_is_not_ours_to_name(tmp_path):
    """Such as the code that a teacher brings: no extra has it."""
    (tmp_path / "theirs.py").write_text("import package_that_is_nowhere\n")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from st_static.dependencies import needed_by\n"
        "with needed_by('This command', 'build'):\n"
        "    import theirs\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stderr.rstrip().endswith(
        "ModuleNotFoundError: No module named 'package_that_is_nowhere'"
    )


def test_garbage_is_looked_for_again_after_loading_even_after_an_error():
    gc.unfreeze()
    with loading():
        assert not gc.isenabled()
    with pytest.raises(ModuleNotFoundError, match="no_such_package"), loading():
        importlib.import_module("no_such_package")
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    gc.unfreeze()
