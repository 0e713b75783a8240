"""Which tokenizers run in JavaScript; that the ids are Python's is tested in tests/web.

Our own ones are in test_onnx.py, which asks for more.
"""

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from st_static.web.javascript_tokenizer import (
    check_javascript_tokenizer,
    javascript_description,
)

UNIGRAM = [("[UNK]", 0.0), ("a", -1.0)]


def with_parts(model=None, normalizer=None, pre_tokenizer=None) -> Tokenizer:
    tokenizer = Tokenizer(model or models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    return tokenizer


def with_added_token() -> Tokenizer:
    tokenizer = with_parts()
    tokenizer.add_tokens([AddedToken("New York", single_word=True)])
    return tokenizer


def test_the_tokenizers_of_foreign_models_run(tokenizers_by_family):
    for tokenizer in tokenizers_by_family.values():
        check_javascript_tokenizer(tokenizer)


@pytest.mark.parametrize(
    ("tokenizer", "problem"),
    [
        (with_parts(models.Unigram(UNIGRAM, 0, True)), "falls back to bytes"),
        (with_parts(models.BPE(dropout=0.1)), "at random"),
        (with_parts(models.BPE(continuing_subword_prefix="##")), "marks pieces by '##'"),
        (with_parts(normalizer=normalizers.Nmt()), "no normalizer Nmt"),
        (with_parts(normalizer=normalizers.Replace("a", "$&")), "with a \\$"),
        (
            with_parts(pre_tokenizer=pre_tokenizers.UnicodeScripts()),
            "no pre-tokenizer UnicodeScripts",
        ),
        (
            with_parts(pre_tokenizer=pre_tokenizers.Split(Regex("a"), "merged_with_next")),
            "Split is MergedWithNext",
        ),
        (
            with_parts(pre_tokenizer=pre_tokenizers.Punctuation("merged_with_previous")),
            "Punctuation is MergedWithPrevious",
        ),
        (
            with_parts(
                pre_tokenizer=pre_tokenizers.Sequence(
                    [
                        pre_tokenizers.WhitespaceSplit(),
                        pre_tokenizers.Metaspace(prepend_scheme="first"),
                    ]
                )
            ),
            "Metaspace begins the first word",
        ),
        (with_added_token(), "'New York' stands for whole words only"),
    ],
)
def test_what_javascript_does_not_run_is_refused_with_the_reason(tokenizer, problem):
    with pytest.raises(ValueError, match=f"does not run in JavaScript: .*{problem}"):
        check_javascript_tokenizer(tokenizer)
    with pytest.raises(ValueError, match=problem):
        javascript_description(tokenizer)
