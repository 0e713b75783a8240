"""A small model that is really built, with its stages."""

import shutil

import pytest
from card_results import as_if_idle, write_results

from st_static.cli import main

TEXTS = ["baba bade figo.", "Baba!", "kuku bade", "how do i read rows from a csv file"] * 20


@pytest.fixture(scope="session")
def write(built):
    """Runs `st-static card` on a model, where its teacher is found by the recorded name."""

    def run(model, *more):
        results = model.parent / "results"
        arguments = [model, "--results", *sorted((results / "local__tiny").iterdir())]
        arguments += ["--peers", *(results / "local__peer").iterdir(), *more]
        from st_static.evaluate import speed

        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(built / "teacher")
            patch.setattr(speed, "speed_texts", lambda: TEXTS)
            if speed.sentences_per_second.__module__ == speed.__name__:  # not a test's
                patch.setattr(speed, "sentences_per_second", as_if_idle)
            cards = model.parent / "model_cards"
            return main(["card", *map(str, arguments), "--cards", str(cards)])

    return run


@pytest.fixture(scope="session")
def written(write, built, tmp_path_factory):
    """A model with its card; not to be changed."""
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(built / "model", home / "tiny")
    write_results(home / "tiny")
    assert write(home / "tiny", "--work_dir", built / "work") == 0
    return home / "tiny"


@pytest.fixture
def model(written, tmp_path):
    """A copy of it, with its results and the folder of cards."""
    return shutil.copytree(written.parent, tmp_path / "home") / "tiny"
