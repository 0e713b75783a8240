"""A recipe that `--print_config` or a card prints is read back with all of its values."""

import dataclasses
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from st_static.commands.build import parse_build
from st_static.commands.recipe import hints_of
from st_static.distill.config import BuildConfig
from st_static.yaml_text import dump_yaml, load_yaml

LANGUAGES = st.sampled_from(["en", "no", ["ja", "en"], ["no"]])
TEXTS = st.one_of(
    st.sampled_from(["", "1e5", "3e-3", "no", "null", "~", "2024-13-45", "=", "<<", "0x1f", "1_0"]),
    st.text(st.characters(codec="utf-8"), max_size=12),
    # Longer than a line of a card.
    st.text("ab c", min_size=80, max_size=200),
)


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type, some of them out of its bounds."""
    kind = get_origin(hint)
    if kind is Annotated:
        pattern = [item.pattern for item in get_args(hint) if hasattr(item, "pattern")]
        return (
            st.from_regex(pattern[0], fullmatch=True) if pattern else values_of(get_args(hint)[0])
        )
    if kind in (Union, types.UnionType):
        return st.one_of(*map(values_of, get_args(hint)))
    if kind is Literal:
        return st.sampled_from(get_args(hint))
    if kind is list:
        return st.lists(values_of(get_args(hint)[0]), max_size=3)
    if kind is dict:
        keys, values = get_args(hint)
        return st.dictionaries(values_of(keys), values_of(values), max_size=2)
    if dataclasses.is_dataclass(hint):  # as YAML has it, with a value of its own
        values = {name: values_of(kind) for name, kind in hints_of(hint).items()}
        return st.one_of(*(st.fixed_dictionaries({name: v}) for name, v in values.items()))
    numbers = st.one_of(st.floats(allow_nan=False), st.sampled_from([1e-5, 1e22, 0.1]))
    return {
        int: st.integers(-2, 10**18),
        float: numbers,
        bool: st.booleans(),
        str: TEXTS,
        type(None): st.none(),
    }[hint]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recipe") / "recipe.yaml"


def with_value(key: str, value: Any) -> BuildConfig:
    """A recipe with one value of its own; values that do not fit the others are passed over."""
    section, _, name = key.rpartition(".")
    try:
        kind = get_type_hints(BuildConfig)[section] if section else None
        changes = {section: kind(**{name: value})} if kind else {name: value}
        return BuildConfig(**changes)
    except ValueError:
        assume(False)
        raise


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
def test_no_value_of_a_section_is_lost(file: Path, data: st.DataObject) -> None:
    key, hint = data.draw(st.sampled_from(sorted(hints_of(BuildConfig).items(), key=str)))
    value = data.draw(LANGUAGES if key == "language" else values_of(hint))
    config = with_value(key, value)
    file.write_text(dump_yaml(dataclasses.asdict(config)), "utf-8")
    assert parse_build([str(file)]) == config
    file.write_text(dump_yaml(config.recipe(), width=90), "utf-8")
    assert parse_build([str(file)]).recipe() == config.recipe()


@given(text=TEXTS)
@example(text="a: b # c")
def test_text_stays_text(text: str) -> None:
    assert load_yaml(dump_yaml({text: [text]})) == {text: [text]}
