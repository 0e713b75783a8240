"""A small model that is really built, with its stages."""

from pathlib import Path

import pytest
from small_build import save_tiny_teacher, small_config, write_corpus

from st_static.build.recipe import build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with `model`, `work` and `teacher/teacher`; not to be changed."""
    folder = tmp_path_factory.mktemp("published")
    teacher = save_tiny_teacher(folder / "teacher")
    build(small_config(teacher, write_corpus(folder / "corpus.txt"), folder))
    return folder
