"""The command `export`: a static model in, its files for other programs out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from st_static.commands.options import CommandParser, UsageError, log_to_terminal
from st_static.dependencies import needed_by, require_packages


@needed_by("This command", "onnx")
def run(arguments: Sequence[str]) -> int:
    """Run `export`."""
    parser = CommandParser(
        prog="st-static export",
        description="Write a model into another folder, with its table in another number format; "
        "or its ONNX files, for onnxruntime, transformers.js, fastembed and "
        "text-embeddings-inference.",
    )
    add = parser.add_argument
    add("model", help="Folder of a static model; with --output also its id.")
    about = "Folder for the model, with its card; it loads where the first one does."
    add("--output", type=Path, metavar="DIR", help=about)
    about = (
        "Number format of its table: float32, the default; float16; or int8, which loads in "
        "FastEncoder, Model2Vec from 0.7 on and sentence-transformers from 6.2 on."
    )
    add("--dtype", choices=["float32", "float16", "int8"], help=about)
    add("--onnx", action="store_true", help="Write onnx/model.onnx.")
    about = "Write onnx/model_quantized.onnx, too: the table in int8, a quarter of the size."
    add("--quantize", choices=["int8"], help=about)
    options = parser.read(arguments, _check)
    log_to_terminal()
    if options.onnx:
        require_packages("onnx")  # before the folder is written
    from st_static.model.export import check_output, export_as
    from st_static.model.model_folder import ModelFolder, read_static_model

    if output := options.output:
        check_output(output, with_card=True)
        export_as(ModelFolder.of(options.model), output, options.dtype or "float32")
        print(f"{output}: {sum(file.size for file in ModelFolder(output).files) / 1e6:.1f} MB")
    if not options.onnx:
        return 0
    from st_static.web.onnx_export import BESIDE_ONNX, export_onnx

    model = output or Path(options.model)
    missing = [file for name in BESIDE_ONNX if not (file := model / name).exists()]
    for file in export_onnx(model, options.quantize):
        print(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
    for file in missing:
        print(file)
    if prompt := read_static_model(model).prompt:
        print(f"The graph has no prompts: put the default one, {prompt!r}, before each text.")
    return 0


def _check(options: Any) -> None:
    for name, needed in (("dtype", "output"), ("quantize", "onnx")):
        if getattr(options, name) and not getattr(options, needed):
            raise UsageError(f"--{name} needs --{needed}.")
    if not (options.onnx or options.output):
        raise UsageError("Nothing to write: give --output or --onnx.")
