"""Running the project's scripts: as users do, in a process of their own, or faster, in this one."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest


def error_of(script: Path, *arguments: str, folder: Path, status: int = 1) -> str:
    """The last line that a script writes to stderr when it fails, as it must, without the Hub."""
    result = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == status, result.stderr[-3000:]
    return result.stderr.rstrip().rpartition("\n")[2]


def run_script(script: Path, *arguments: str, folder: Path | None = None) -> str:
    """What a script prints; it must end without an error, and without the Hub."""
    result = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


def status_here(script: Path, *arguments: str) -> int:
    """Run a script in this process, where what it imports is loaded; its exit status."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(script.parent)
        patch.setattr(sys, "argv", [str(script), *arguments])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(script), run_name="__main__")
    return int(end.value.code or 0)
