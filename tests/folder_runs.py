"""What the tests of `st-static encode` on folders share: a tiny model, a run, two nodes of Ray."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from random_model import write_random_model

from st_static.cli import main
from st_static.model.tokenizer import build_tokenizer

WORDS = ["a", "ship", "keeper", "sails"]


def write_model(folder: Path, seed: int = 0) -> str:
    """Write a model of four words; its folder."""
    return str(write_random_model(folder, build_tokenizer(WORDS), 8, seed))


def run(model: str, lake: Path | str, output: Path | str, *options: str) -> int:
    """Encode a folder; the exit status."""
    arguments = ["encode", model, "--input", str(lake), "--output", str(output), *options]
    return main(arguments)


@contextmanager
def two_nodes() -> Iterator[str]:
    """A Ray cluster of two nodes on this machine, with a processor each; its address.

    They have GPUs of different kinds, which is no matter for encoding.
    """
    pytest.importorskip("ray", reason='needs Ray: pip install "st-static[cluster]"')
    from ray_nodes import two_nodes_for_clients

    with two_nodes_for_clients(["T4", "H100"]) as (nodes, _):
        yield nodes.address
