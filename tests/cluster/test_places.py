"""Places that other machines must see: who cannot read or write there is told, nothing is left."""

import os
import time
from pathlib import Path

import pytest

from st_static.cluster.places import Place, check_access, seen_by_others


def test_access_to_a_folder_leaves_nothing_there(tmp_path: Path) -> None:
    with seen_by_others(Place.parse(str(tmp_path / "out"))) as seen:
        check_access(seen)
        assert [file.as_posix() for file in (tmp_path / "out").iterdir()] == [seen.path]
    assert list((tmp_path / "out").iterdir()) == []


def refusal(seen: Place) -> str:
    with pytest.raises(ValueError, match="cannot") as raised:
        check_access(seen)
    return str(raised.value)


def test_a_folder_that_is_not_seen_is_named(tmp_path: Path) -> None:
    missing = Place.parse(str(tmp_path / "none"))
    said = refusal(missing.below("_seen_by_nodes_1"))
    assert said == f"cannot read {missing.path} (No such file or directory)"
    assert not (tmp_path / "none").exists()


def test_another_folder_of_the_same_path_is_told(tmp_path: Path) -> None:
    with seen_by_others(Place.parse(str(tmp_path))) as seen:
        Path(seen.path).write_text("")
        assert refusal(seen) == f"cannot read {tmp_path} (its files have other contents here)"


def test_a_folder_that_cannot_be_written_into_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with seen_by_others(Place.parse(str(tmp_path))) as seen:
        if os.geteuid():
            tmp_path.chmod(0o500)
        else:  # who may write everywhere

            def refuse(path: Path, *_: object) -> None:
                raise PermissionError(13, "Permission denied", str(path))

            monkeypatch.setattr(Path, "open", refuse)
        said = refusal(seen)
        monkeypatch.undo()
        tmp_path.chmod(0o700)
    assert said == f"cannot write into {tmp_path} (Permission denied)"
    assert list(tmp_path.iterdir()) == []


def test_only_what_killed_runs_left_is_removed(tmp_path: Path) -> None:
    """A younger file may be of a run that is at its check."""
    old, young = time.time() - 3700, time.time() - 3500
    ages = {
        "_seen_by_nodes_1": old,
        "._seen_by_nodes_2.7-7.tmp": old,  # while it was written
        "_seen_by_nodes_3": young,
        "seen.txt": old,
    }
    for name, written in ages.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (written, written))
    (tmp_path / "folder").mkdir()
    with seen_by_others(Place.parse(str(tmp_path))):
        pass
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["_seen_by_nodes_3", "folder", "seen.txt"]
