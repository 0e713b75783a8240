"""The examples in docstrings give what they say."""

import doctest
import importlib
import pkgutil

import pytest

import st_static

MODULES = [
    "st_static",
    *(
        module.name
        for module in pkgutil.walk_packages(st_static.__path__, "st_static.")
        if not module.name.endswith("__main__")
    ),
]
# Modules whose examples must not get lost unnoticed.
WITH_EXAMPLES = {
    *("st_static", "st_static.distill.agreement", "st_static.distill.config"),
    "st_static.evaluate.figures",
    *("st_static.model.model_name", "st_static.tokens.fast_tokenizer"),
    *("st_static.ensemble.ensemble", "st_static.ensemble.tuning_figure"),
    *("st_static.encode.fast_encoder", "st_static.model.tokenizer"),
    *("st_static.distill.loss", "st_static.distill.sentence_pca"),
    *("st_static.distill.teacher_pass", "st_static.distill.static_word_embedding"),
}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
    assert result.attempted > 0 or name not in WITH_EXAMPLES


def test_every_module_is_looked_at():
    assert set(MODULES) >= WITH_EXAMPLES
