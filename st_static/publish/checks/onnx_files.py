"""Checking that the ONNX files of a folder are those of its model."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from st_static.dependencies import DependencyError, needed_by
from st_static.model.onnx_files import ONNX_FILES


def check_onnx_files(folder: Path, names: Collection[str]) -> Iterator[str]:
    """What is wrong with ONNX files: each is compared with what would be written now.

    Args:
        folder: The model.
        names: The files in it, with slashes.
    """
    if not set(ONNX_FILES) & set(names):
        return
    try:
        with needed_by("The check of ONNX files", "onnx"):
            from st_static.model.onnx_export import outdated
        quantize = " --quantize int8" if ONNX_FILES[1] in names else ""
        for problem in outdated(folder):
            yield f"{problem}. Write it again: st-static export {folder} --onnx{quantize}."
    except DependencyError as error:
        yield str(error)
    except ValueError:  # no static model: what is wrong with it is said elsewhere
        return
