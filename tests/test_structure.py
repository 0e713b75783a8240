"""How the code is laid out: imports go one way, functions and files stay readable, all is used."""

import ast
import functools
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from installs import installed_with, modules_of

from st_static.dependencies import MODULES_WITH_EXTRAS, extra_of

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "st_static"

# The plan. A room of the core imports from those before it. An add-on imports the core, and nothing
# imports an add-on but the commands, so that any can be deleted. All import the modules of
# `st_static/` itself that are no rooms; those, and `texts`, import nothing else.
BASE = ("texts", "tokens", "model", "encode", "search")  # runs in the base install
CORE = (*BASE, "distill", "evaluate", "cards")
ADD_ONS = ("ensemble", "lab", "web", "cluster")
TOP = ("commands", "cli")
ROOMS = (*CORE, *ADD_ONS, *TOP)
IMPORTS_NOTHING_ELSE = "texts"
# Two files of the base need torch: one runs where it is loaded, one is copied into models.
NEED_TORCH = {"st_static.encode.torch_sums", "st_static.model.segment_normalize"}

LONGEST_FUNCTION = 80
LONGEST_FILE = 600

# Code that users run, and pages that say what they may call.
USERS = [
    *filter(Path.is_file, (ROOT / "recipes").iterdir()),
    *(ROOT / "benchmarks").glob("*.py"),
    *(ROOT / "examples").glob("*.py"),
    ROOT / "README.md",
    *(ROOT / "docs").rglob("*.md"),
    *PACKAGE.rglob("*.jinja"),
]
# What libraries call or read on the classes that ours extend, and which library does.
USED_BY_LIBRARIES = {
    "_load_optimizer_and_scheduler": "Trainer",
    "_save_optimizer_and_scheduler": "Trainer",
    "add_model_card_callback": "SentenceTransformerTrainer",
    "config_keys": "sentence_transformers Module",
    "create_accelerator_and_postprocess": "Trainer",
    "create_optimizer": "Trainer",
    "display": "tqdm",
    "get_optimizer_cls_and_kwargs": "Trainer",
    "construct_mapping": "PyYAML",
    "construct_object": "PyYAML",
    "on_log": "TrainerCallback",
    "on_step_end": "TrainerCallback",
    "readinto": "io.RawIOBase",
    "preprocess": "SentenceTransformer",
    "_values_fit": "pydantic's model_validator",
    "valid_label_columns": "SentenceTransformerTrainer's data collator",
}


def module_name(file: Path) -> str:
    """`st_static.encode.fast_encoder` of its file; of a package, the package's name."""
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


SOURCES = {module_name(file): file for file in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(file.read_text("utf-8")) for name, file in SOURCES.items()}


def room_of(module: str) -> str:
    """The first name below the package: a room, or a module beside the rooms."""
    return module.partition(".")[2].partition(".")[0]


def imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The modules that statements import, ours in full."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in SOURCES else str(node.module) for name in names)


def ours(modules: Iterable[str]) -> Iterator[str]:
    """Those of the package."""
    return (module for module in modules if module.partition(".")[0] == "st_static")


def may_import(room: str, other: str) -> bool:
    """Whether code of one room may import from another."""
    if room == other:
        return True
    if room == IMPORTS_NOTHING_ELSE:
        return False
    if other not in ROOMS:
        return True
    if room in ADD_ONS and other in ADD_ONS:
        return False
    return room in ROOMS and ROOMS.index(other) < ROOMS.index(room)


def test_the_rooms_are_there() -> None:
    assert set(ROOMS) <= {room_of(module) for module in SOURCES}


def test_imports_go_one_way() -> None:
    wrong = [
        f"{module} imports {other}"
        for module, tree in TREES.items()
        if module != "st_static"
        for other in ours(imports(ast.walk(tree)))
        if other != "st_static" and not may_import(room_of(module), room_of(other))
    ]
    assert wrong == []


def test_no_module_takes_public_names_by_the_back_door() -> None:
    """The package's own names would hide which room they come from."""
    taken = {
        alias.name
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "st_static"
        for alias in node.names
        if f"st_static.{alias.name}" not in SOURCES
    }
    assert taken <= {"__version__"}


def test_no_modules_import_each_other() -> None:
    """Neither in functions, nor for annotations."""
    waiting = {
        module: {*ours(imports(ast.walk(tree)))} - {module, "st_static"}
        for module, tree in TREES.items()
        if module != "st_static"
    }
    while free := [module for module, others in waiting.items() if not others & waiting.keys()]:
        for module in free:
            del waiting[module]
    assert waiting == {}


def test_the_base_install_runs_the_first_rooms() -> None:
    """And imports no other room with them."""
    modules = {module for module in SOURCES if room_of(module) in BASE}
    assert {module for module in modules if extra_of(module)} == NEED_TORCH
    rooms = {room_of(module) for module in ours(set().union(*map(loaded_with, modules)))}
    assert rooms.isdisjoint(set(ROOMS) - set(BASE))


def test_the_core_loads_where_there_is_no_add_on(tmp_path: Path) -> None:
    """A copy without the add-ons' folders, which their names could hide in strings."""
    shutil.copytree(PACKAGE, tmp_path / "st_static", ignore=shutil.ignore_patterns("models"))
    for room in ADD_ONS:
        shutil.rmtree(tmp_path / "st_static" / room)
    core = [module for module in SOURCES if room_of(module) not in (*ADD_ONS, *TOP)]
    program = f"import importlib, sys\nsys.path.insert(0, {str(tmp_path)!r})\n"
    program += f"for name in {core!r}:\n    found = importlib.import_module(name)\n"
    program += f"    assert found.__file__.startswith({str(tmp_path)!r})\n"
    program += "from st_static.dependencies import DependencyError, add_on\n"
    program += "import st_static\nassert not {'Ensemble', 'export_onnx'} & set(dir(st_static))\n"
    program += "def gone(load):\n    try:\n        load()\n    except DependencyError as error:\n"
    program += "        return 'has no add-on' in str(error)\n"
    program += "assert gone(lambda: add_on('peers')) and gone(lambda: st_static.Ensemble)\n"
    assert subprocess.run([sys.executable, "-P", "-c", program]).returncode == 0


def test_threads_share_by_one_mechanism() -> None:
    """Pools of Python start no thread once the main one has ended, and a fork beside a thread that
    makes a cached property may hang: `st_static.threads` has what does neither."""
    later = ROOMS[ROOMS.index("search") + 1 :]
    wrong = [
        f"{module}: {name}"
        for module, tree in TREES.items()
        for name in used(tree)
        if name == "ThreadPoolExecutor"
        or (name == "cached_property" and room_of(module) not in later)
    ]
    own = "st_static.threads: "
    assert {name for name in wrong if not name.startswith(own)} == set()


def functions() -> dict[str, int]:
    """The lines of each function, its docstring included."""
    return {
        f"{module}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


def test_functions_are_short() -> None:
    assert {name: n for name, n in functions().items() if n > LONGEST_FUNCTION} == {}


def test_files_are_short() -> None:
    lengths = {name: len(file.read_text("utf-8").splitlines()) for name, file in SOURCES.items()}
    assert {name: n for name, n in lengths.items() if n > LONGEST_FILE} == {}


def words(file: Path) -> list[str]:
    """What a file names: in Python, what the code uses; elsewhere, every word."""
    text = file.read_text("utf-8")
    return list(used(ast.parse(text))) if file.suffix == ".py" else re.findall(r"\w+", text)


def used(tree: ast.AST) -> Iterator[str]:
    """The names that Python code uses, also as strings, as in a mapping of lazy names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name.rpartition(".")[2]
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def definitions(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """The functions, classes, methods and constants of a module."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, node
            yield from definitions(node.body if isinstance(node, ast.ClassDef) else [])
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((target.id, node) for target in targets if isinstance(target, ast.Name))


def test_all_code_is_used_outside_the_tests() -> None:
    """By name: what has the same name as something that is used goes unnoticed."""
    uses = Counter(word for file in [*SOURCES.values(), *USERS] for word in words(file))
    unused = {
        f"{module}: {name}"
        for module, tree in TREES.items()
        for name, node in definitions(tree.body)
        if uses[name] == Counter(used(node))[name] and not name.startswith("__")
    }
    assert {name for name in unused if name.rpartition(" ")[2] not in USED_BY_LIBRARIES} == set()
    # A reason that has gone goes from the list.
    assert USED_BY_LIBRARIES.keys() <= {name.rpartition(" ")[2] for name in unused}


@functools.cache
def loaded_with(module: str) -> set[str]:
    """All that is imported when a module of ours is, one of ours after another."""
    found = set(imports(TREES[module].body))
    return found.union(*(loaded_with(other) for other in found & SOURCES.keys()))


@pytest.mark.parametrize("extra", [None, "build", "eval", "publish", "onnx"])
def test_an_extra_has_all_that_its_modules_import(extra: str | None) -> None:
    """A module loads after an install with the extra that `st_static.dependencies` has for it."""
    there = {"st_static", *modules_of(installed_with(extra or "")), *sys.stdlib_module_names}
    missing = [
        f"{module} needs {other}"
        for module in SOURCES
        if extra_of(module) == extra
        for other in loaded_with(module)
        if other.partition(".")[0] not in there
    ]
    assert missing == []


def test_extras_are_of_modules_that_are_there() -> None:
    assert SOURCES.keys() >= MODULES_WITH_EXTRAS.keys()


# Private names of Python's own library and of torch; `private_name` guards those of others.
PRIVATE_NAMES = {
    "_exit": "os: public; ends the process at once",
    "_actions": "argparse: what a parser takes",
    "_asdict": "typing.NamedTuple: public, the underscore keeps it apart from fields",
    "_indices": "torch: the indices of a sparse tensor that is not coalesced",
    "_option_string_actions": "argparse: the same, by the option's name",
    "_values": "torch: its values",
}


def test_private_names_of_libraries_are_guarded() -> None:
    """A release that drops one is told in a line, not by an AttributeError."""
    nodes = [node for tree in TREES.values() for node in ast.walk(tree)]
    own = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    own |= {node.id for node in nodes if isinstance(node, ast.Name)}
    own |= {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    private = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr)
    }
    private |= {
        alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name.startswith("_")
    }
    assert private - own <= PRIVATE_NAMES.keys()
