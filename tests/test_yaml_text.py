"""YAML that is written: every reader takes a text for a text."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from card_results import read_facts
from hypothesis import example, given
from hypothesis import strategies as st

from st_static.cards.render import render
from st_static.model.card_file import header_of
from st_static.yaml_text import dump_yaml, load_yaml

# What readers take for something other than text where it stands without quotes.
CORE = {  # YAML 1.2.2, 10.3.2
    "null": r"null|Null|NULL|~|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|"
    r"\.(nan|NaN|NAN)",
}
OTHERS = {
    "bool": r"(?i:y|n|yes|no|on|off|true|false)",  # YAML 1.1, yaml.org/type
    "int": r"[-+]?(0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|[1-9][0-9_]*(:[0-5]?[0-9])+)",
    "float": r"[-+]?([0-9][0-9_]*)?\.[0-9.]*([eE][-+][0-9]+)?|"
    r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*",
    "timestamp": r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?",
    "merge": r"<<",
    "value": r"=",
    # In JavaScript, Go, Ruby and Rust: underscores, octal and binary, commas, symbols, bare words.
    "of libraries": r"[-+]?0[xob][0-9a-fA-F_]+|[-+]?[0-9][0-9_,]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?|"
    r":.*|(?i:[-+]?(inf|infinity|nan))",
}
NO_TEXT = re.compile("|".join(f"({p})" for p in [*CORE.values(), *OTHERS.values()]))


class Core(yaml.SafeLoader):
    """Reads by the core schema of YAML 1.2 alone."""


Core.yaml_implicit_resolvers = {}
for tag, pattern in CORE.items():
    Core.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"({pattern})\Z"), None)


@given(
    st.one_of(
        st.text(st.characters(codec="utf-8"), max_size=12),
        st.from_regex(NO_TEXT, fullmatch=True),
        st.text("ab -#:,\n", max_size=200),  # of several lines
    )
)
@example("1e3")
@example("08")
@example("4821e096")  # a revision
@example(" a ")
@example("---")
@example("a: b # c")
def test_every_reader_takes_a_text_for_a_text(text):
    written = dump_yaml({text: [text], "key": {"a": text}})
    for read in (load_yaml, yaml.safe_load, lambda written: yaml.load(written, Core)):
        assert read(written) == {text: [text], "key": {"a": text}}
    for token in yaml.scan(written):
        if isinstance(token, yaml.ScalarToken) and token.plain:
            assert not NO_TEXT.fullmatch(token.value)


def test_what_is_no_text_stays_what_it_is():
    values = {"a": [1, -2, 1e-5, 1e22, 0.5, True, None], "b": {}}
    assert load_yaml(dump_yaml(values)) == yaml.load(dump_yaml(values), Core) == values


@pytest.mark.parametrize("name", ["1e3", "08", "0x1f", "no", "2024-01-02", "12:30"])
def test_a_card_names_its_model_in_any_reader(name):
    facts = read_facts(Path(__file__).parents[1] / "model_cards/english-384.json")
    results = [replace(entry, is_local=False, revision=name) for entry in facts.results]
    card = render(replace(facts, name=name, hub_id=f"org/{name}", results=results))
    [model] = header_of(card)["model-index"]
    assert [model["name"], model["results"][0]["dataset"]["revision"]] == [name, name]
    assert yaml.load(card.split("---\n")[1], Core) == header_of(card)
