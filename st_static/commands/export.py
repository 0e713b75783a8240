"""The command `export`: a static model in, its files for other programs out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from st_static.commands.options import CommandParser, UsageError, log_to_terminal
from st_static.dependencies import needed_by


@needed_by("This command", "onnx")
def run(arguments: Sequence[str]) -> int:
    """Run `export`."""
    parser = CommandParser(
        prog="st-static export",
        description="Write a model's ONNX files into its folder: for onnxruntime, transformers.js, "
        "fastembed and text-embeddings-inference.",
    )
    parser.add_argument("model", type=Path, help="Folder of a static model.")
    parser.add_argument("--onnx", action="store_true", help="Write onnx/model.onnx.")
    parser.add_argument(
        "--quantize",
        choices=["int8"],
        help="Write onnx/model_quantized.onnx, too: the table in int8, a quarter of the size.",
    )
    options = parser.read(arguments, _check)
    log_to_terminal()
    from st_static.model.model_folder import read_static_model
    from st_static.model.onnx_export import BESIDE_ONNX, export_onnx

    missing = [file for name in BESIDE_ONNX if not (file := options.model / name).exists()]
    for file in export_onnx(options.model, options.quantize):
        print(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
    for file in missing:
        print(file)
    if prompt := read_static_model(options.model).prompt:
        print(f"The graph has no prompts: put the default one, {prompt!r}, before each text.")
    return 0


def _check(options: Any) -> None:
    if not options.onnx:
        what = "--quantize is of ONNX files" if options.quantize else "Nothing to write"
        raise UsageError(f"{what}: give --onnx.")
