"""How long a new process takes to its first vector, and how much memory at most.

    python benchmarks/cold_start.py MODEL [--turns 5]

loads a folder, or the model in the package by its name, in new processes, one for each library and
turn, the libraries one after the other in each turn, and encodes one sentence. Prints a table of
the medians: seconds from the start of the process to the vector, the peak of its resident memory
(VmHWM), both against the first row with numbers, and the largest difference of the vectors. A first
turn, which reads the files from the disk, does not count. Where a library cannot load the model,
its row says so, as that of a mapped table in int8. Linux only.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from measuring import parser_of

from st_static.hub import packaged

TEXT = "Read rows from a file."
# Each makes the vector of TEXT; the model's folder is `model`.
WAYS = {
    "FastEncoder, mmap": "from st_static import FastEncoder\n"
    "vector = FastEncoder.from_pretrained(model, mmap=True).encode(text)",
    "FastEncoder": "from st_static import FastEncoder\n"
    "vector = FastEncoder.from_pretrained(model).encode(text)",
    "FastEncoder, int8": "from st_static import FastEncoder\n"
    "vector = FastEncoder.from_pretrained(model, dtype='int8').encode(text)",
    "FastEncoder, int8, mmap": "from st_static import FastEncoder\n"
    "vector = FastEncoder.from_pretrained(model, dtype='int8', mmap=True).encode(text)",
    "Model2Vec": "from model2vec import StaticModel\n"
    "vector = StaticModel.from_pretrained(model).encode(text)",
    "sentence-transformers": "from sentence_transformers import SentenceTransformer\n"
    "encoder = SentenceTransformer(model, device='cpu', trust_remote_code=True)\n"
    "vector = encoder.encode(text)",
}
REPORT = """
import json, re, time
end = time.time()
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]
print(json.dumps({"end": end, "megabytes": int(peak) / 1024, "vector": vector.tolist()}))
"""


def first_vector(code: str, model: Path) -> dict[str, Any] | None:
    """Seconds, peak memory and vector of one new process; None if it cannot load the model."""
    script = f"import sys\nmodel, text = sys.argv[1:]\n{code}\n{REPORT}"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    start = time.time()
    process = subprocess.run(
        [sys.executable, "-c", script, str(model), TEXT],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        print(process.stderr.strip().splitlines()[-1], file=sys.stderr)
        return None
    found: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return {**found, "seconds": found["end"] - start}


def measure(model: Path, turns: int) -> dict[str, list[dict[str, Any]]]:
    """What each library's processes report, without those of the first turn."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in WAYS}
    for turn in range(turns + 1):
        for name, code in WAYS.items():
            one = first_vector(code, model)
            if turn and one:
                found[name].append(one)
    return found


def print_table(found: dict[str, list[dict[str, Any]]]) -> None:
    """The medians of all libraries, as a table in Markdown."""
    first = next(filter(None, found.values()), None)
    if first is None:
        raise SystemExit("No library can load the model: see above.")
    units = ("seconds", "megabytes")
    base = {unit: statistics.median(one[unit] for one in first) for unit in units}
    print("| library | seconds | ratio | peak, MB | ratio | difference |")
    print("|---|---|---|---|---|---|")
    for name, ones in found.items():
        if not ones:
            print(f"| {name} | does not load it | | | | |")
            continue
        cells = [name]
        for unit, digits in zip(units, (2, 0), strict=True):
            median = statistics.median(one[unit] for one in ones)
            cells += [f"{median:.{digits}f}", f"{median / base[unit]:.1f}"]
        difference = np.abs(np.subtract(ones[0]["vector"], first[0]["vector"])).max()
        print(f"| {' | '.join(cells)} | {difference:.0e} |")


def main() -> None:
    """Measure, print."""
    parser = parser_of(__doc__)
    parser.add_argument("model", help="a model's folder, or a name such as st-static/english-384")
    parser.add_argument("--turns", type=int, default=5, help="processes of each library")
    options = parser.parse_args()
    folder = packaged(options.model) or Path(options.model)
    if not folder.is_dir():
        parser.error(f"there is no folder {folder}")
    if options.turns < 1:
        parser.error("take at least one turn")
    print_table(measure(folder, options.turns))


if __name__ == "__main__":
    main()
