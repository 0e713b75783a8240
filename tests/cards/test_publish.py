"""Publishing over HTTP, to a Hub on the loopback that keeps bytes and can misbehave."""

import base64
import json
import runpy
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from editing import replace_in, set_in
from hub_server import READ_TOKEN, TOKEN, Hub, connect
from hub_store import Repository
from huggingface_hub import ModelCard, constants
from small_build import generated_sentences, save_tiny_teacher, small_config, write_corpus
from small_model import write_model

from st_static.cards import facts, gather
from st_static.cards import publish as hub_module
from st_static.cards.plan_card import CardInputs
from st_static.cards.publish import check_equal, load_fresh, publish, texts_to_compare
from st_static.cli import main
from st_static.commands.build import BENCHMARK, Publication
from st_static.distill.config import BuildConfig
from st_static.encode.fast_encoder import FastEncoder
from st_static.model.model_folder import ModelFolder
from st_static.web.publish_demo import publish_with_demo

REPO = "org/ours-256"
DEMO = f"spaces/{REPO}-demo"
TEXTS = ["Read rows from a file.", "It rains today!", "qqq", ""]
WRONG_TOKEN = "hf_" + "x" * 34
COMMIT = "POST .*/commit/"
LFS = "PUT /storage/"
RECIPES = Path(__file__).parents[2] / "recipes"


@dataclass
class Client:
    """This process as a client: what it waits for, and what it loads in other processes."""

    waits: list[float] = field(default_factory=list)
    loaded: list[tuple[str, str | None, str | None]] = field(default_factory=list)


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def hub(client, tmp_path, monkeypatch):
    """A server; this process waits for nothing, and loads models here, not in new processes."""

    def load_here(model, texts, *, revision=None, token=None, cache_folder=None, **_):
        client.loaded.append((model, revision, token))
        cache = cache_folder or tmp_path / f"cache_{len(client.loaded)}"
        return FastEncoder.from_pretrained(model, revision, token, cache).encode(texts)

    monkeypatch.setattr(hub_module, "load_fresh", load_here)
    monkeypatch.setattr("time.sleep", client.waits.append)
    with Hub().running() as hub:
        connect(hub.url, tmp_path, monkeypatch)
        of_new_processes = {
            "HF_ENDPOINT": hub.url,
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HOME": str(tmp_path / "home"),
            "HF_TOKEN": TOKEN,
        }
        for name, value in of_new_processes.items():
            monkeypatch.setenv(name, value)
        yield hub


@pytest.fixture
def folder(tmp_path):
    return write_model(tmp_path / "ours-256")


def run(*arguments):
    """The exit status of `st-static publish`."""
    return main(["publish", *map(str, arguments)])


def history(hub, revision="main", name=REPO):
    """The commits of a repository after its first, the newest first."""
    return hub.repositories[name].history(revision)[:-1]


def assert_holds(commit, folder):
    """A commit holds every file of the folder, byte by byte, and nothing else."""
    files = {path: blob.content for path, blob in commit.files.items() if path != ".gitattributes"}
    assert files == {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def assert_nothing_half(hub):
    """Whatever was uploaded, no commit shows it, and no tag."""
    assert list(hub.repositories[REPO].find("main").files) == [".gitattributes"]
    assert not hub.repositories[REPO].pulls
    assert not hub.repositories[REPO].tags


def change_figure(folder):
    (folder / "figures" / "scores.svg").write_text("<svg></svg>")


def commit_of_others(hub, files):
    """Somebody else commits files to the model's repository."""
    lines = [{"key": "header", "value": {"summary": "Another"}}]
    for path, content in files.items():
        encoded = base64.b64encode(content).decode()
        lines.append({"key": "file", "value": {"path": path, "content": encoded}})
    hub.repositories[REPO].commit("main", lines, "another", False)


# -- the whole way ---------------------------------------------------------------------


def test_a_published_model_loads_by_its_name_without_st_static(hub, folder, monkeypatch):
    publish(folder, REPO)
    monkeypatch.delenv("HF_TOKEN")
    vectors = load_fresh(REPO, TEXTS)
    expected = FastEncoder.from_pretrained(folder).encode(TEXTS)
    assert expected[:2].any(axis=1).all()
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("library", "says"),
    [
        ("from st_static import model", "import of st_static halted"),
        (f"raise SystemExit('there is no model for {TOKEN}')", r"there is no model for \*\*\*"),
    ],
)
def test_a_process_that_cannot_load_it_alone_tells_why(tmp_path, monkeypatch, library, says):
    (tmp_path / "sentence_transformers.py").write_text(library)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ValueError, match=rf"org/ours-256 does not load .* alone: .*{says}"):
        load_fresh(REPO, TEXTS, token=TOKEN)


def test_what_is_published_is_whole_and_tagged_after_it_was_downloaded(hub, client, folder):
    published = publish(folder, REPO, tag="v1")
    [commit] = history(hub)
    assert_holds(commit, folder)
    assert (published.commit, published.is_new) == (commit.oid, True)
    assert published.url == f"{hub.url}/{REPO}"
    assert hub.repositories[REPO].tags == {"v1": commit.oid}
    assert client.loaded == [(str(folder), None, None), (REPO, commit.oid, TOKEN)]
    assert hub.asked("GET .*/tree/") == 2  # compared once, and downloaded
    downloads = [r for r in hub.requests if r.startswith(f"GET /{REPO}/resolve/{commit.oid}")]
    tagged = f"POST /api/models/{REPO}/tag/{commit.oid}"
    assert hub.requests.index(downloads[-1]) < hub.requests.index(tagged)


def test_a_download_that_breaks_is_resumed(hub, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 100)
    assert (folder / "model.safetensors").stat().st_size // 2 == 216
    publish(folder, REPO)
    before = hub.asked("GET /storage/")
    hub.fail("GET /storage/", kind="drop")
    encoder = FastEncoder.from_pretrained(REPO, cache_folder=tmp_path / "another")
    expected = FastEncoder.from_pretrained(folder).encode(TEXTS)
    np.testing.assert_array_equal(encoder.encode(TEXTS), expected)
    assert hub.asked("GET /storage/") == before + 2
    assert hub.ranges == ["bytes=200-"]


# -- again -----------------------------------------------------------------------------


def test_the_same_files_make_no_new_commit(hub, folder):
    first = publish(folder, REPO)
    before = hub.asked(COMMIT), hub.asked(LFS)
    again = publish(folder, REPO)
    assert (hub.asked(COMMIT), hub.asked(LFS)) == before
    assert len(history(hub)) == 1
    assert (again.commit, again.is_new, first.is_new) == (first.commit, False, True)


def test_a_change_is_one_commit_and_sends_what_changed(hub, folder):
    """Also of a file of the same size; files of others stay."""
    publish(folder, REPO)
    commit_of_others(hub, {"LICENSE": b"MIT"})
    assert not publish(folder, REPO).is_new
    before = hub.asked(LFS)
    replace_in(folder / "README.md", "scores.svg", "rating.svg")
    (folder / "figures/scores.svg").rename(folder / "figures/rating.svg")
    assert publish(folder, REPO).is_new
    assert hub.asked(LFS) == before
    table = folder / "model.safetensors"
    content = bytearray(table.read_bytes())
    content[-1] ^= 1
    table.write_bytes(content)
    assert publish(folder, REPO).is_new
    assert len(history(hub)) == 4
    files = history(hub)[0].files
    assert files.pop("LICENSE").content == b"MIT"
    assert_holds(history(hub)[0], folder)


# -- branches, tags, pull requests -----------------------------------------------------


def test_a_branch_of_a_private_repository_is_created_and_main_left_alone(hub, folder, capsys):
    assert run(folder, REPO, "--private", "--revision", "next/v2", "--tag", "v1") == 0
    assert hub.repositories[REPO].private
    assert history(hub) == []
    [commit] = history(hub, "next/v2")
    assert_holds(commit, folder)
    said = capsys.readouterr().out
    assert said.startswith(f"Published: {hub.url}/{REPO} (")
    assert said.endswith(f" MB, commit {commit.oid[:12]}, tag v1)\n")
    assert not publish(folder, REPO, revision="next/v2").is_new


def test_a_repository_without_its_branch_is_named(hub, folder):
    hub.repositories[REPO] = repository = Repository(REPO, private=False)
    repository.heads["trunk"] = repository.heads.pop("main")
    says = r"Expected the branch main in org/ours-256, but .* \(there is trunk\)"
    with pytest.raises(ValueError, match=says):
        publish(folder, REPO)
    assert len(repository.commits) == 1


def test_a_pull_request_leaves_main_alone_and_is_not_opened_twice(hub, folder, capsys):
    assert run(folder, REPO, "--create_pr") == 0
    assert f"Published: {hub.url}/{REPO}/discussions/1 (" in capsys.readouterr().out
    [commit] = history(hub, "refs/pr/1")
    assert_holds(commit, folder)
    again = publish(folder, REPO, create_pr=True)
    assert (again.url, again.commit) == (f"{hub.url}/{REPO}/discussions/1", commit.oid)
    assert not again.is_new
    change_figure(folder)
    assert publish(folder, REPO, create_pr=True).is_new
    assert list(hub.repositories[REPO].pulls) == ["refs/pr/1", "refs/pr/2"]
    assert history(hub) == []


def test_what_main_holds_needs_no_pull_request(hub, folder):
    publish(folder, REPO)
    published = publish(folder, REPO, create_pr=True)
    assert not hub.repositories[REPO].pulls
    assert (published.url, published.is_new) == (f"{hub.url}/{REPO}", False)


def test_a_tag_that_is_taken_is_refused_before_anything_is_uploaded(hub, folder):
    first = publish(folder, REPO, tag="v1")
    assert publish(folder, REPO, tag="v1").commit == first.commit
    change_figure(folder)
    with pytest.raises(ValueError, match="The tag v1 of org/ours-256 is there"):
        publish(folder, REPO, tag="v1")
    assert len(history(hub)) == 1
    assert hub.repositories[REPO].tags == {"v1": first.commit}


def test_a_model_that_gives_other_vectors_is_not_called_published(hub, folder, monkeypatch):
    load_here = hub_module.load_fresh

    def load_wrong(model, *rest, **options):
        return load_here(model, *rest, **options) + 0.1 * (model == REPO)

    monkeypatch.setattr(hub_module, "load_fresh", load_wrong)
    with pytest.raises(ValueError, match=r"gives other vectors .* The files were uploaded"):
        publish(folder, REPO, tag="v1")
    assert hub.repositories[REPO].tags == {}


@pytest.mark.parametrize(
    ("asked", "file"),
    [
        ("GET /storage/", "model.safetensors"),
        ("GET .*/tokenizer.json", "tokenizer.json"),
        ("GET .*/scores.svg", "figures/scores.svg"),
    ],
)
def test_a_storage_that_changes_a_bit_is_found_before_the_tag_is_set(hub, folder, asked, file):
    fault = hub.fail(asked, kind="alter")
    says = f"^org/ours-256 serves other content than was sent: {file}. The files were uploaded"
    with pytest.raises(ValueError, match=says):
        publish(folder, REPO, tag="v1")
    assert not fault.times
    assert hub.repositories[REPO].tags == {}
    assert_holds(history(hub)[0], folder)
    publish(folder, REPO, tag="v1")
    assert list(hub.repositories[REPO].tags) == ["v1"]


# -- what is refused before the Hub is asked -------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"repo_id": "ours-256"}, "Expected the repository as ORG/NAME"),
        ({"repo_id": "org/ours/256"}, "Repo id must be"),
        ({"create_pr": True, "tag": "v1"}, "A pull request is made to main, and has no tag"),
        ({"create_pr": True, "revision": "next"}, "A pull request is made to main"),
    ],
)
def test_requests_that_cannot_be_are_refused(hub, folder, options, says):
    with pytest.raises(ValueError, match=says):
        publish(folder, **{"repo_id": REPO, **options})
    assert hub.requests == []


def test_a_dry_run_checks_and_lists_and_asks_nothing(hub, client, folder, monkeypatch, capsys):
    monkeypatch.delenv("HF_TOKEN")
    assert run(folder, REPO, "--dry_run") == 0
    *files, last = capsys.readouterr().out.splitlines()
    assert dict(line.split() for line in files) == {
        path.relative_to(folder).as_posix(): f"{path.stat().st_size:,}"
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert last.endswith("would go to org/ours-256. Nothing was uploaded.")
    assert hub.requests == []
    assert client.loaded == [(str(folder), None, None)]


@pytest.mark.parametrize("options", [[], ["--dry_run"]])
def test_what_is_wrong_with_a_folder_is_listed_and_nothing_uploaded(hub, folder, capsys, options):
    (folder / "notes.txt").write_text("private")
    (folder / "README.md").unlink()
    assert run(folder, REPO, *options) == 1
    first, *problems = capsys.readouterr().err.splitlines()
    assert first.startswith("Error: ")
    assert [problem[:15] for problem in problems] == ["- There is no R", "- notes.txt is "]
    assert hub.requests == []


def test_code_of_a_model_has_to_be_allowed(hub, folder):
    (folder / "mine.py").write_text("")
    assert run(folder, REPO, "--dry_run") == 1
    assert run(folder, REPO, "--dry_run", "--allow_remote_code") == 0


# -- who may ---------------------------------------------------------------------------


def test_a_public_repository_is_not_taken_for_a_private_one(hub, folder):
    hub.repositories[REPO] = Repository(REPO, private=False)
    with pytest.raises(ValueError, match="is there and public"):
        publish(folder, REPO, private=True)
    assert_nothing_half(hub)
    assert not hub.asked(LFS)


def test_without_a_token_nothing_is_asked(hub, client, folder, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(ValueError, match=r"needs a token.*`hf auth login`, or set HF_TOKEN"):
        publish(folder, REPO)
    assert hub.requests == client.loaded == []


def test_a_private_model_is_refused_without_a_token_and_downloaded_with_one(
    hub, folder, tmp_path, monkeypatch
):
    publish(folder, REPO, private=True)
    assert FastEncoder.from_pretrained(REPO, cache_folder=tmp_path / "with").dimension == 4
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(ValueError, match=r"org/ours-256.* or it is private\. .*hf auth login"):
        FastEncoder.from_pretrained(REPO, cache_folder=tmp_path / "without")


@pytest.mark.parametrize("is_there", [False, True])
def test_a_token_that_may_only_read_is_refused(hub, client, folder, is_there, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", READ_TOKEN)
    if is_there:
        hub.repositories[REPO] = Repository(REPO, private=False)
    with pytest.raises(ValueError, match=r"The token may not write to org/ours-256.*403.*hf auth"):
        publish(folder, REPO)
    assert is_there or not hub.repositories
    assert client.waits == []


@pytest.mark.parametrize(
    ("token", "says"),
    [
        (WRONG_TOKEN, "Error: The token may not write to org/ours-256. The Hub answers 401"),
        ("hf_a b" + "x" * 20, "Error: The token holds white space or letters beyond a-z"),
        ("hf_ä" + "x" * 30, "Error: The token holds white space or letters beyond a-z"),
    ],
)
def test_a_wrong_token_appears_in_no_output(hub, folder, token, says, capfd, caplog, monkeypatch):
    caplog.set_level("DEBUG")
    monkeypatch.setenv("HF_TOKEN", token)
    assert run(folder, REPO) == 1
    with pytest.raises(ValueError, match="hf auth login") as caught:
        publish(folder, REPO)
    captured = capfd.readouterr()
    assert says in captured.err
    shown = [*captured, caplog.text]
    error: BaseException | None = caught.value
    while error is not None:
        shown.append(f"{error!r} {error}")
        error = error.__cause__ or error.__context__
    assert not any(part in text for text in shown for part in (token, "x" * 20))
    assert not hub.repositories


# -- a Hub that is out of order --------------------------------------------------------

STEPS = {
    "creating the repository": "POST /api/repos/create",
    "looking at its branches": "GET .*/refs",
    "listing files": "GET .*/tree/",
    "asking how to upload": "POST .*/preupload/",
    "asking where to upload": "POST .*/objects/batch",
    "the content of a large file": LFS,
    "confirming a large file": "POST .*/objects/verify",
    "checking the card": "POST /api/validate-yaml",
    "the commit": COMMIT,
    "the tag": "POST .*/tag/",
}
OF_THE_DOWNLOAD = {
    "listing the commit": ("GET .*/tree/", 1),
    "looking at a file": ("HEAD /org/.*/resolve/", 0),
    "the content of a file": ("GET /storage/", 0),
}


@pytest.mark.parametrize("kind", ["500", "429", "drop", "lose"])
@pytest.mark.parametrize("step", STEPS)
def test_a_moment_out_of_order_ends_in_one_whole_commit(hub, client, folder, step, kind):
    """`lose`: what was asked for is done, and only the answer does not arrive."""
    if kind.isdigit():
        after = {"Retry-After": "7"} if kind == "429" else {}
        fault = hub.fail(STEPS[step], status=int(kind), headers=after)
    else:
        fault = hub.fail(STEPS[step], kind=kind)
    published = publish(folder, REPO, tag="v1")
    [commit] = history(hub)
    assert_holds(commit, folder)
    assert (published.commit, published.is_new) == (commit.oid, True)
    assert hub.repositories[REPO].tags == {"v1": commit.oid}
    assert (fault.times, len(client.waits)) == (0, 1)
    if kind == "429" and step != "checking the card":  # of which the client keeps no headers
        assert client.waits[0] >= 7


@pytest.mark.parametrize("kind", ["status", "lose"])
@pytest.mark.parametrize(("step", "after"), OF_THE_DOWNLOAD.values(), ids=OF_THE_DOWNLOAD)
def test_a_moment_out_of_order_while_the_commit_is_downloaded(hub, folder, step, after, kind):
    fault = hub.fail(step, kind=kind, after=after)
    publish(folder, REPO, tag="v1")
    assert not fault.times
    assert list(hub.repositories[REPO].tags) == ["v1"]


@pytest.mark.parametrize(
    "step", ["creating the repository", "the commit", "the content of a large file"]
)
def test_the_rate_limit_says_how_long_to_wait(hub, client, folder, step):
    hub.fail(STEPS[step], status=429, headers={"ratelimit": '"api";r=0;t=55'})
    publish(folder, REPO)
    assert 55 <= client.waits[0] <= 56


@pytest.mark.parametrize("kind", ["drop", "lose"])
def test_a_pull_request_is_opened_once(hub, folder, kind):
    hub.fail(COMMIT, kind=kind)
    published = publish(folder, REPO, create_pr=True)
    assert list(hub.repositories[REPO].pulls) == ["refs/pr/1"]
    assert published.is_new
    assert_holds(history(hub, "refs/pr/1")[0], folder)


def test_several_faults_one_after_the_other(hub, folder):
    hub.fail(LFS, status=500, times=2)
    hub.fail(LFS, kind="drop")
    hub.fail(COMMIT, status=502, times=2)
    hub.fail(COMMIT, status=409)
    hub.fail(COMMIT, kind="lose")
    publish(folder, REPO)
    [commit] = history(hub)
    assert_holds(commit, folder)
    assert hub.asked(LFS) == 4


def test_a_commit_of_somebody_else_meanwhile_is_built_on(hub, folder):
    """Also where it changed a file that did not differ when the folder was compared."""
    publish(folder, REPO)
    change_figure(folder)
    repository = hub.repositories[REPO]

    def commit_after_another(*arguments):
        del repository.commit  # only the first time
        commit_of_others(hub, {"README.md": b"# Another", "LICENSE": b"MIT"})
        return repository.commit(*arguments)

    repository.commit = commit_after_another
    publish(folder, REPO)
    assert [one.title for one in history(hub)] == ["Upload ours-256", "Another", "Upload ours-256"]
    files = history(hub)[0].files
    assert files.pop("LICENSE").content == b"MIT"
    assert_holds(history(hub)[0], folder)


@pytest.mark.parametrize("kind", ["status", "drop"])
@pytest.mark.parametrize("step", [LFS, COMMIT, "POST .*/preupload/"])
def test_an_upload_that_fails_for_good_leaves_no_commit(hub, folder, step, kind):
    fault = hub.fail(step, kind=kind, times=float("inf"))
    with pytest.raises(OSError, match="org/ours-256") as caught:
        publish(folder, REPO, tag="v1")
    assert "ublish again" in str(caught.value)
    assert "storage" not in str(caught.value)
    assert_nothing_half(hub)
    # huggingface_hub asks six times by itself how to upload, and so does each attempt of ours.
    assert hub.asked(step) == (36 if "preupload" in step else 6)
    # And when it is in order again, the same command goes through.
    fault.times = 0
    publish(folder, REPO, tag="v1")
    assert_holds(history(hub)[0], folder)


def test_content_that_was_damaged_on_the_way_is_refused(hub, folder, monkeypatch):
    keep = Repository.keep
    monkeypatch.setattr(Repository, "keep", lambda self, sha, data: keep(self, sha, data[:-1]))
    with pytest.raises(OSError, match="not what its sha256 says"):
        publish(folder, REPO)
    assert_nothing_half(hub)


def test_no_hub_at_all_is_said_in_one_line(hub, folder, monkeypatch, capfd):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert run(folder, REPO) == 1
    says = "Error: Publishing org/ours-256 failed: the Hub cannot be reached ("
    assert says in capfd.readouterr().err


def test_offline_mode_is_named(hub, folder, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE is set"):
        publish(folder, REPO)


# -- the comparison --------------------------------------------------------------------


def test_texts_come_from_all_over_the_vocabulary(folder, tmp_path):
    texts = texts_to_compare(ModelFolder(folder))
    encoder = FastEncoder.from_pretrained(folder)
    tokens = {token for text in texts for token in encoder.model.tokenizer.encode(text).tokens}
    assert {"read", "rows", "today", "a", "h"} <= tokens
    assert len(texts_to_compare(ModelFolder(tmp_path))) > 3


LONG = [[20.0, 1], [0.5, 1]]  # as a transformer's vectors may be, beside a table's of length 1


@pytest.mark.parametrize(
    ("local", "published", "says"),
    [
        ([[1, 1], [1, 1]], np.ones((2, 3)), "expected the shape .2, 2., but got .2, 3."),
        ([[1, 1], [1, 1]], [[1, 1], [1, np.nan]], "1 of 2 texts differ"),
        ([[1, 1], [1, 1]], [[1, 1], [1, 1 + 2e-6]], "1 of 2 texts differ"),
        ([[1, 1], [1, 1]], [[1, 1], [1, 1 + 5e-7]], None),
        # In float16 a text without a known word is no number.
        ([[np.nan, 1]], [[np.nan, 1]], None),
        ([[np.nan, 1]], [[1, 1]], "1 of 1 texts differ"),
        # A difference counts by the length of its vector, as float32 rounds.
        (LONG, [[20.00002, 1], [0.5000005, 1]], None),
        (LONG, [[20.0, 1], [0.50002, 1]], "1 of 2 texts differ"),
        ([[np.inf, 1]], [[np.inf, 99]], "1 of 1 texts differ"),
    ],
)
def test_other_vectors_are_told(local, published, says):
    if says is None:
        check_equal(np.array(local), np.array(published), REPO)
        return
    with pytest.raises(ValueError, match=says):
        check_equal(np.array(local), np.array(published), REPO)


# -- from a recipe ---------------------------------------------------------------------


def build_recipe(*arguments):
    """The exit status of recipes/build.py."""
    return runpy.run_path(str(RECIPES / "build.py"))["run"](list(map(str, arguments)))


def test_a_recipe_is_built_scored_and_published_in_one_go(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    teacher = save_tiny_teacher(tmp_path / "teacher")
    config = small_config(teacher, write_corpus(tmp_path / "corpus.txt"), tmp_path)
    values = {**asdict(config), "output": "models/tiny", "work_dir": "work"}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(values))
    sentences = generated_sentences(60, seed=7)
    pairs = {"sentence1": sentences[:30], "sentence2": sentences[30:], "score": list(range(30))}
    (tmp_path / "data/STS12").mkdir(parents=True)
    pq.write_table(pa.table(pairs), tmp_path / "data/STS12/test.parquet")
    for module in (gather, facts):  # on a busy machine, too
        monkeypatch.setattr(module, "is_believable", lambda rows, model: True)
    command = ["recipe.yaml", "--publish", REPO, "--tasks", "STS12", "--data", "data"]
    command += ["--export.license", "mit"]
    with pytest.raises(ValueError, match=r"--corpus\.description .* and --corpus\.license"):
        build_recipe(*command)
    command += ["--corpus.description", "invented words", "--corpus.license", "cc0-1.0"]
    with pytest.raises(ValueError, match=r"--teacher\.hub_id ORG/NAME"):
        build_recipe(*command)
    assert not (tmp_path / "models").exists()
    assert build_recipe(*command, "--teacher.hub_id", "org/random-weights") == 0
    [commit] = history(hub)
    assert_holds(commit, tmp_path / "models/tiny")
    card = ModelCard.load(tmp_path / "models/tiny/README.md")
    [file] = (tmp_path / "results").rglob("STS12.json")
    [score] = json.loads(file.read_text())["scores"]["test"]
    row = next(line for line in card.text.split("\n") if line.startswith("| STS12 (local copy) |"))
    assert row.endswith(f"| {100 * score['main_score']:.2f} |")
    assert f'SentenceTransformer("{REPO}")' in card.text
    assert "# ours-256\n" in card.text  # and not the folder's name
    assert "distilled from [org/random-weights]" in card.text
    assert not (tmp_path / "model_cards").exists()


def test_a_model_that_was_trained_further_is_published(hub, fine_tuned):
    assert main(["card", str(fine_tuned), "--hub_id", REPO]) == 0
    assert run(fine_tuned, REPO) == 0
    [commit] = history(hub)
    assert_holds(commit, fine_tuned)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([RECIPES / "ensemble-512.yaml", "--publish", REPO], "An ensemble is published by itself"),
        (["--publish", "ours-256"], "ORG/NAME"),
        (["--tasks", "STS12"], "for --publish"),
        (["--publish", REPO, "--export.license", "nonsense"], r"export\.license: .*'nonsense'"),
        (["--publish", REPO], "needs a token"),
    ],
)
def test_nothing_is_built_that_cannot_be_published(hub, monkeypatch, arguments, says):
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(ValueError, match=says):
        build_recipe(*arguments)


def test_the_card_compares_on_the_benchmark_that_was_run(monkeypatch):
    done = []
    monkeypatch.setattr("st_static.commands.evaluate.evaluate", done.append)
    monkeypatch.setattr("st_static.commands.card.write", lambda _, inputs: done.append(inputs))
    monkeypatch.setattr("st_static.commands.publish.publish_folder", lambda *_: 0)
    for publication in (Publication(REPO), Publication(REPO, ["STS12"])):
        assert publication.run(BuildConfig()) == 0
    benchmarks = [done_with.benchmark for done_with in done]
    assert benchmarks == [BENCHMARK, BENCHMARK, None, CardInputs([]).benchmark]


# -- with a demo -----------------------------------------------------------------------


def test_a_demo_is_published_beside_the_model_and_linked_from_its_card(hub, client, folder, capsys):
    before = (folder / "README.md").read_text()
    hub.fail(f"POST /api/{DEMO}/commit/", status=503)
    assert run(folder, REPO, "--demo", "--tag", "v1") == 0
    url = f"{hub.url}/{DEMO}"
    [commit] = history(hub, name=DEMO)
    assert {"index.html", "style.css", "js/main.js", "model/model.json"} <= commit.files.keys()
    header = yaml.safe_load(commit.files["README.md"].content.decode().split("---")[1])
    assert (header["sdk"], header["models"]) == ("static", [REPO])
    assert header["title"] == "ours-256 demo"
    assert commit.title == f"Upload the demo of {REPO}"
    [uploaded] = history(hub)
    assert_holds(uploaded, folder)
    card = (folder / "README.md").read_text()
    assert card.startswith(before.rstrip())
    assert card.count(f"]({url})") == 1
    assert hub.repositories[REPO].tags == {"v1": uploaded.oid}
    said = capsys.readouterr().out.splitlines()
    places = [f"{hub.url}/{REPO}", url]
    assert [line.split(" (")[0] for line in said] == [f"Published: {place}" for place in places]
    assert client.waits == [1.0]


def test_a_demo_is_not_uploaded_again_and_loses_what_another_version_had(hub, folder, capsys):
    assert run(folder, REPO, "--demo") == 0
    card = (folder / "README.md").read_bytes()
    assert run(folder, REPO, "--demo") == 0
    assert capsys.readouterr().out.count("The same files are there already") == 2
    assert (folder / "README.md").read_bytes() == card
    assert len(history(hub, name=DEMO)) == len(history(hub)) == 1
    facts = {"model/model.json": b'{"written_by": "st_static demo"}'}
    older = {"js/old.js": b"", "mine.txt": b"", "index.html": b"old"}
    hub.repositories[DEMO].fill(facts | older)
    assert run(folder, REPO, "--demo") == 0
    files = history(hub, name=DEMO)[0].files
    assert ("js/old.js" in files, "mine.txt" in files) == (False, True)
    assert files["index.html"].content != b"old"


def test_the_line_in_the_card_stands_behind_the_notes(hub, folder):
    notes = "<!-- notes: start -->\r\nMine.\r\n<!-- notes: end -->\r\n\r\nMore.\r\n"
    card = folder / "README.md"
    card.write_bytes(card.read_bytes() + notes.encode())
    before = card.read_bytes().decode()
    publish_with_demo(folder, REPO)
    after = card.read_bytes().decode()
    line = next(line for line in after.splitlines() if DEMO in line)
    assert after.replace(f"\n\n{line}", "") == before
    assert after.index("notes: end") < after.index(line) < after.index("More.")


def test_a_dry_run_lists_the_files_of_the_demo_and_changes_nothing(hub, folder, capsys):
    before = (folder / "README.md").read_bytes()
    assert run(folder, REPO, "--demo", "--dry_run") == 0
    said = capsys.readouterr().out
    assert "model/table.safetensors " in said
    assert f"would go to {REPO}. Nothing was uploaded." in said
    assert f"would go to {REPO}-demo. Nothing was uploaded." in said
    assert hub.requests == []
    assert (folder / "README.md").read_bytes() == before


def test_the_demo_of_a_private_model_is_private_and_known_again(hub, folder):
    for _ in range(2):
        publish_with_demo(folder, REPO, private=True)
    assert hub.repositories[REPO].private
    assert hub.repositories[DEMO].private
    assert len(history(hub, name=DEMO)) == 1


@pytest.mark.parametrize(
    "files",
    [
        {"app.py": b"mine", "README.md": b"mine"},
        # No demo by the name of a file alone.
        {"model/model.json": b'{"format": "layers-model"}', "js/main.js": b"mine"},
    ],
)
def test_a_space_that_holds_something_else_is_left_alone(hub, client, folder, files):
    before = (folder / "README.md").read_bytes()
    hub.add(DEMO, files)
    hub.fail(f"GET /{DEMO}/resolve/", status=503)
    with pytest.raises(ValueError, match=r"holds something that is not a demo of st_static"):
        publish_with_demo(folder, REPO)
    assert client.waits == [1.0] * ("model/model.json" in files)
    assert REPO not in hub.repositories
    assert len(history(hub, name=DEMO)) == 1
    assert (folder / "README.md").read_bytes() == before


def test_a_space_that_cannot_be_looked_into_is_left_alone(hub, folder):
    publish_with_demo(folder, REPO)
    hub.fail(f"GET /{DEMO}/resolve/", status=403)
    with pytest.raises(ValueError, match=f"may not write to {REPO}-demo"):
        publish_with_demo(folder, REPO)
    assert len(history(hub, name=DEMO)) == 1


def test_a_new_space_may_hold_what_the_hub_puts_there(hub, folder):
    hub.add(DEMO, {"README.md": b"template", "index.html": b"template"})
    publish_with_demo(folder, REPO)
    assert b"template" not in history(hub, name=DEMO)[0].files["index.html"].content


@pytest.mark.parametrize("option", [["--create_pr"], ["--revision", "other"]])
def test_a_demo_of_what_is_not_on_main_is_refused(option, hub, folder, capsys):
    assert run(folder, REPO, "--demo", *option) == 1
    assert "leave out --revision and --create_pr" in capsys.readouterr().err
    assert hub.requests == []


def test_a_model_that_cannot_run_in_a_browser_is_refused_before_anything_is_sent(hub, folder):
    set_in(folder / "tokenizer.json", {"pre_tokenizer": {"type": "UnicodeScripts"}})
    before = (folder / "README.md").read_bytes()
    with pytest.raises(ValueError, match="no pre-tokenizer UnicodeScripts"):
        publish_with_demo(folder, REPO)
    assert hub.requests == []
    assert (folder / "README.md").read_bytes() == before


def test_a_demo_of_a_published_model_names_it(hub, folder, tmp_path):
    publish(folder, REPO)
    assert main(["demo", REPO, "--output", str(tmp_path / "demo")]) == 0
    header = yaml.safe_load((tmp_path / "demo" / "README.md").read_text().split("---")[1])
    assert (header["title"], header["models"]) == ("ours-256 demo", [REPO])
    assert header["license"] == "apache-2.0"
