"""Running the project's scripts: as users do, in a process of their own, or faster, in this one."""

import contextlib
import importlib.util
import io
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest


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
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as end:
            return int(end.code or 0)
    return 0


def output_here(script: Path, *arguments: str) -> str:
    """What a script prints that is run so; it must end without an error."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert status_here(script, *arguments) == 0
    return printed.getvalue()


def load_script(script: Path) -> ModuleType:
    """A script as a module, whose parts are called one by one."""
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
