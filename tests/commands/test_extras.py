"""Commands without the packages of the extras: `encode` works, others name the extra."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from st_static.dependencies import needed_by
from st_static.model.export import export_model
from st_static.tokens.tokenizer import build_tokenizer

# Runs `st-static` where only what `pip install st-static` brings can be imported.
ON_THE_BASE = """
import sys

EXTRAS = {
    "blingfire", "datasets", "docstring_parser", "jinja2", "joblib", "jsonargparse", "matplotlib",
    "mteb", "polars", "rich", "scipy", "sentence_transformers", "sklearn", "threadpoolctl",
    "transformers",
}


class OnlyTheBase:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, OnlyTheBase())
from st_static.cli import main

sys.exit(main(sys.argv[1:]))
"""


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ON_THE_BASE, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_encode_needs_no_extra(tmp_path: Path) -> None:
    tokenizer = build_tokenizer(["a", "ship"])
    table = np.ones((tokenizer.get_vocab_size(), 2), dtype=np.float32)
    export_model(tmp_path / "model", table, tokenizer, {})
    (tmp_path / "in.txt").write_text("A ship\na\n")
    files = ["--input", tmp_path / "in.txt", "--output", tmp_path / "out.npy"]
    result = run("encode", tmp_path / "model", *files)
    assert result.returncode == 0, result.stderr
    assert np.load(tmp_path / "out.npy").shape == (2, 2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["build"], r'This command needs jsonargparse: pip install "st-static[build]".'),
        (
            ["evaluate", "{0}", "--tasks", "STS12"],
            'This command needs mteb: pip install "st-static[eval]".',
        ),
        (["compare", "{0}"], 'pip install "st-static[eval]".'),
        (["analyse", "{0}", "--work_dir", "{0}"], 'pip install "st-static[eval]".'),
        (["card", "{0}", "--results", "{0}"], 'pip install "st-static[publish]".'),
        (["explain", "{0}", "a", "b"], 'pip install "st-static[publish]".'),
        (["publish", "{0}", "org/model"], 'pip install "st-static[publish]".'),
    ],
)
def test_a_command_names_the_extra_that_it_needs(
    arguments: list[str], says: str, tmp_path: Path
) -> None:
    result = run(*(word.format(tmp_path) for word in arguments))
    assert result.returncode == 1
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("Error: This command needs ")
    assert line.endswith(says)


def test_a_missing_module_of_ours_is_no_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError), needed_by("This command", "build"):
        import st_static.nothing  # noqa: F401
