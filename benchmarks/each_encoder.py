"""How fast each library encodes with each model, all in one run.

    python benchmarks/each_encoder.py MODEL [MODEL ...] [--teacher MODEL]

prints sentences per second, the median of five turns, in which all take part one after the other,
each with one call that is not timed before the one that is. MODEL is a folder,
`st-static/english-384` or `wordllama:256`; the teacher, as `st-static evaluate` names it, is for
sentence-transformers alone. The texts are 16,000 sentences from the documentation
of Python's standard library, in one call, for which Model2Vec starts processes. The teacher gets 64
of them. `FastEncoder` is new in each call, so it has not seen them before.

It needs the packages model2vec and wordllama.
"""

import functools
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from encode_speed import Encode, make_encoder
from measuring import parser_of, print_heading, print_row, seconds_of

from st_static.encode.fast_encoder import FastEncoder
from st_static.evaluate.models import load_model
from st_static.evaluate.speed import speed_texts
from st_static.hub import packaged
from st_static.model.export import export_model
from st_static.model.model_name import read_named
from st_static.model.modules import RECORD_FILE
from st_static.model.static_model import StaticModel

FAST, TRANSFORMERS, MODEL2VEC = "FastEncoder", "sentence-transformers", "Model2Vec"
OWN = "its own package"
COLUMNS = [FAST, TRANSFORMERS, MODEL2VEC, OWN]
N_TEXTS, OF_TEACHER, TURNS = 16_000, 64, 5


def encoders_of(name: str, exported: Path) -> dict[str, Callable[[], Encode]]:
    """What makes each encoder of a static model, by its column. sentence-transformers gets others'
    models, which may be in int8, as exported in float32; and so does Model2Vec if there is no
    folder."""
    model = read_named(name)
    folder = whole = packaged(name) or Path(name)
    if not (folder / RECORD_FILE).is_file():
        export_model(exported, np.asarray(model.table, np.float32), model.tokenizer, {})
        whole = exported
        folder = folder if folder.is_dir() else exported
    specs = {TRANSFORMERS: f"sentence-transformers:{whole}"}
    if not (model.head or model.segments):
        specs[MODEL2VEC] = f"model2vec:{folder}"
    if name.startswith("wordllama:"):
        specs[OWN] = name
    loaded = {column: _always(make_encoder(spec)) for column, spec in specs.items()}
    return {FAST: functools.partial(_new_encoder, model), **loaded}


def _new_encoder(model: StaticModel) -> Encode:
    encoder = FastEncoder(model)
    encoder.tokenize.prepare()  # a part of loading, which is not measured
    return encoder.encode


def _always(encode: Encode) -> Callable[[], Encode]:
    return lambda: encode


def measure(
    makers: dict[tuple[str, str], Callable[[], Encode]], texts: list[str], teacher: str | None
) -> dict[tuple[str, str], float]:
    """Sentences per second of each encoder."""
    times: dict[tuple[str, str], list[float]] = {key: [] for key in makers}
    counts = {key: OF_TEACHER if key[0] == teacher else len(texts) for key in makers}
    for _ in range(TURNS):
        for key, make in makers.items():
            some = texts[: counts[key]]
            make()(some)  # a warm-up: memory that others gave back is slow when it is used again
            times[key].append(seconds_of(make(), some))
    return {key: counts[key] / statistics.median(seconds) for key, seconds in times.items()}


def main() -> None:
    """Measure the models that the options name."""
    parser = parser_of(__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--teacher", metavar="MODEL")
    options = parser.parse_args()
    makers: dict[tuple[str, str], Callable[[], Encode]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for i, name in enumerate(options.models):
            encoders = encoders_of(name, Path(temporary) / str(i))
            makers |= {(name, column): make for column, make in encoders.items()}
        if teacher := options.teacher:
            makers[teacher, TRANSFORMERS] = _always(load_model(teacher).encode)
        speeds = measure(makers, speed_texts(N_TEXTS), teacher)
    print_heading(["model", *COLUMNS])
    for name in dict.fromkeys(name for name, _ in speeds):
        cells = (speeds.get((name, column)) for column in COLUMNS)
        print_row(name, *("" if speed is None else f"{speed:,.0f}" for speed in cells))


if __name__ == "__main__":
    main()
