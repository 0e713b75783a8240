"""Whether a model gives Python's token ids and vectors in JavaScript, on 10,000 odd texts.

    python benchmarks/javascript_parity.py MODEL [--texts 10000]

prints how many texts have the same ids in transformers.js and on the demo page, and, of both ONNX
files in onnxruntime, the largest difference to FastEncoder's vectors and the cosines to them. The
texts are sentences of Python's documentation, changed at random as tests/odd_texts.py does; a tenth
of them is encoded. MODEL has its ONNX files (st-static export MODEL --onnx --quantize int8). It
needs node, npm ci --ignore-scripts in tests/javascript, and the extra `dev`.
"""

import argparse
import json
import operator
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from st_static import FastEncoder
from st_static.evaluate.speed import speed_texts
from st_static.web.write_demo import write_demo

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))
from odd_texts import odd_texts  # noqa: E402

Ids = list[list[int]]
FILES = ("onnx/model.onnx", "onnx/model_quantized.onnx")


def in_transformers_js(model: Path, texts: list[str], folder: Path) -> Ids:
    """Token ids by tests/javascript/encode.mjs."""
    request = {"folder": str(model), "texts": texts, "encoded": [], "unknown": [], "batches": []}
    asked, answer = folder / "request.json", folder / "answer.json"
    asked.write_text(json.dumps(request), "utf-8")
    command = ["node", "encode.mjs", "@huggingface/transformers", str(asked), str(answer)]
    subprocess.run(command, cwd=TESTS / "javascript", check=True)
    ids: Ids = json.loads(answer.read_text("utf-8"))["ids"]
    return ids


def on_the_page(model: Path, texts: list[str], folder: Path) -> Ids:
    """Token ids by the demo's modules, which tests/web/run_demo.mjs runs."""
    write_demo(model, folder / "demo")
    # For node, to which .js is no module else.
    (folder / "demo" / "package.json").write_text('{"type": "module"}')
    command = ["node", str(TESTS / "web" / "run_demo.mjs"), str(folder / "demo")]
    request = json.dumps({"what": "ids", "texts": texts})
    result = subprocess.run(
        command, input=f"{request}\n", capture_output=True, text=True, check=True
    )
    ids: Ids = json.loads(result.stdout)["value"]
    return ids


def vectors_of(file: Path, ids: Ids) -> np.ndarray:
    """The vectors [B, D] of an ONNX file, a text at a time."""
    session = onnxruntime.InferenceSession(file)
    found = []
    for row in ids:
        inputs: dict[str, Any] = {"input_ids": np.array([row], np.int64).reshape(1, -1)}
        inputs["attention_mask"] = np.ones_like(inputs["input_ids"])
        found.append(session.run(["sentence_embedding"], inputs)[0][0])
    return np.array(found)


def main() -> None:
    """Compare, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--texts", type=int, default=10_000)
    options = parser.parse_args()
    model = options.model.resolve()
    if missing := [name for name in FILES if not (model / name).is_file()]:
        parser.error(f"{model} has no {missing[0]}: st-static export MODEL --onnx --quantize int8")
    encoder = FastEncoder.from_pretrained(model)
    texts = odd_texts(speed_texts(1_500), options.texts)
    tokenizer = encoder.model.tokenizer
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        for name, find in (("transformers.js", in_transformers_js), ("demo", on_the_page)):
            equal = sum(map(operator.eq, find(model, texts, Path(folder)), ids))
            print(f"{name}: ids of {equal:,} of {len(texts):,} texts are Python's")
    some = slice(None, None, 10)
    expected = encoder.encode(texts[some])
    known = expected.any(axis=1)
    for name in FILES:
        vectors = vectors_of(model / name, ids[some])
        assert not vectors[~known].any()
        norms = np.linalg.norm(vectors[known], axis=1) * np.linalg.norm(expected[known], axis=1)
        cosines = (vectors[known] * expected[known]).sum(axis=1) / norms
        print(
            f"{name}: {(model / name).stat().st_size / 1e6:.1f} MB, differs by "
            f"{np.abs(vectors - expected).max():.1e}, cosine {cosines.min():.5f} at least, "
            f"{cosines.mean():.5f} on average"
        )


if __name__ == "__main__":
    main()
