"""Publishing over HTTP, to a Hub on the loopback that keeps bytes and can misbehave."""

import base64
import json
import runpy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import huggingface_hub.constants
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hub_server import READ_TOKEN, TOKEN, Hub
from hub_store import Repository
from huggingface_hub import HfApi, ModelCard
from small_build import generated_sentences, save_tiny_teacher, small_config, write_corpus
from small_model import write_model

from st_static.cards import facts, gather, load_alone
from st_static.cards import publish as hub_module
from st_static.cards.plan_card import CardInputs
from st_static.cards.publish import (
    Published,
    check_equal,
    load_fresh,
    publish,
    texts_to_compare,
)
from st_static.cli import main
from st_static.commands.build import BENCHMARK, Publication
from st_static.distill.config import BuildConfig
from st_static.encode.fast_encoder import FastEncoder
from st_static.model.model_folder import ModelFolder
from st_static.web.publish_demo import publish_with_demo

REPO = "org/ours-256"
TEXTS = ["Read rows from a file.", "It rains today!", "qqq", ""]
WRONG_TOKEN = "hf_" + "x" * 34
COMMIT = "POST .*/commit/"
LFS = "PUT /storage/"


@pytest.fixture
def hub():
    with Hub().running() as running:
        yield running


@dataclass
class Client:
    """This process as a client: what it waits for, and what it loads in other processes."""

    waits: list[float] = field(default_factory=list)
    loaded: list[tuple[str, str | None, str | None]] = field(default_factory=list)


@pytest.fixture
def client(hub, tmp_path, monkeypatch):
    """Talk to the server; wait for nothing, and load models here instead of in new processes."""
    settings = {
        "HF_ENDPOINT": hub.url,
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HOME": str(tmp_path / "home"),
        "HF_TOKEN": TOKEN,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    constants = {
        "ENDPOINT": hub.url,
        "HUGGINGFACE_CO_URL_TEMPLATE": f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}",
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_XET": True,
        "HF_TOKEN_PATH": str(tmp_path / "home" / "token"),
        "HF_HUB_CACHE": str(tmp_path / "cache"),
    }
    for name, value in constants.items():
        monkeypatch.setattr(huggingface_hub.constants, name, value)
    client = Client()
    monkeypatch.setattr("time.sleep", client.waits.append)

    def load_here(model, texts, *, revision=None, token=None, cache_folder=None, **_):
        client.loaded.append((model, revision, token))
        cache = cache_folder or tmp_path / f"cache_{len(client.loaded)}"
        return FastEncoder.from_pretrained(model, revision, token, cache).encode(texts)

    monkeypatch.setattr(hub_module, "load_fresh", load_here)
    return client


@pytest.fixture
def folder(tmp_path):
    return write_model(tmp_path / "ours-256")


def history(hub, revision="main"):
    """The commits of the repository after its first, the newest first."""
    return hub.repositories[REPO].history(revision)[:-1]


def assert_holds(commit, folder):
    """A commit holds every file of the folder, byte by byte, and nothing else."""
    files = {path: blob.content for path, blob in commit.files.items() if path != ".gitattributes"}
    assert files == {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def assert_nothing_half(hub):
    """Whatever was uploaded, no commit shows it."""
    assert history(hub) == []
    assert list(hub.repositories[REPO].find("main").files) == [".gitattributes"]
    assert not hub.repositories[REPO].pulls


def file_line(path, content):
    """A line of a commit that adds a file."""
    value = {"path": path, "content": base64.b64encode(content).decode(), "encoding": "base64"}
    return {"key": "file", "value": value}


# -- the whole way ---------------------------------------------------------------------


def test_a_published_model_loads_by_its_name_without_st_static(hub, client, folder, monkeypatch):
    publish(folder, REPO)
    monkeypatch.delenv("HF_TOKEN")
    vectors = load_fresh(REPO, TEXTS)
    expected = FastEncoder.from_pretrained(folder).encode(TEXTS)
    assert expected[:2].any(axis=1).all()
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_the_process_that_loads_alone_cannot_import_st_static(tmp_path, monkeypatch):
    (tmp_path / "sentence_transformers.py").write_text("from st_static import model\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"does not load .* alone: .*import of st_static halted"):
        load_fresh(REPO, TEXTS)


def test_a_model_that_does_not_load_is_told_without_the_token(tmp_path, monkeypatch):
    program = tmp_path / "fails.py"
    program.write_text("import sys\nsys.exit('no such model with ' + sys.stdin.read())\n")
    monkeypatch.setattr(load_alone, "__file__", str(program))
    with pytest.raises(ValueError, match=r"does not load .* alone: no such model") as caught:
        load_fresh(REPO, TEXTS, token=TOKEN)
    assert "org/ours-256" in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_what_is_published_is_whole_and_tagged_after_it_was_downloaded(hub, client, folder):
    published = publish(folder, REPO, tag="v1")
    [commit] = history(hub)
    assert_holds(commit, folder)
    assert published.commit == commit.oid
    assert published.is_new
    assert published.url == f"{hub.url}/{REPO}"
    assert hub.repositories[REPO].tags == {"v1": commit.oid}
    assert client.loaded == [(str(folder), None, None), (REPO, commit.oid, TOKEN)]
    assert hub.asked("GET .*/tree/") == 2  # compared once, and downloaded
    downloads = [r for r in hub.requests if r.startswith(f"GET /{REPO}/resolve/{commit.oid}")]
    tagged = f"POST /api/models/{REPO}/tag/{commit.oid}"
    assert hub.requests.index(downloads[-1]) < hub.requests.index(tagged)


def test_a_download_that_breaks_is_resumed(hub, client, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 100)
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


def test_the_same_files_make_no_new_commit(hub, client, folder):
    first = publish(folder, REPO)
    before = hub.asked(COMMIT), hub.asked(LFS)
    again = publish(folder, REPO)
    assert (hub.asked(COMMIT), hub.asked(LFS)) == before
    assert len(history(hub)) == 1
    assert (again.commit, again.is_new, first.is_new) == (first.commit, False, True)


def test_a_change_is_one_commit_and_sends_what_changed(hub, client, folder):
    publish(folder, REPO)
    card = folder / "README.md"
    card.write_text(card.read_text().replace("scores.svg", "speed.svg"))
    (folder / "figures" / "scores.svg").rename(folder / "figures" / "speed.svg")
    before = hub.asked(LFS)
    assert publish(folder, REPO).is_new
    assert hub.asked(LFS) == before
    assert len(history(hub)) == 2
    assert_holds(history(hub)[0], folder)


def test_a_file_of_the_same_size_is_sent(hub, client, folder):
    publish(folder, REPO)
    card, table = folder / "README.md", folder / "model.safetensors"
    card.write_text(card.read_text().replace("70.5", "71.5"))
    content = bytearray(table.read_bytes())
    content[-1] ^= 1
    table.write_bytes(content)
    publish(folder, REPO)
    assert_holds(history(hub)[0], folder)


def test_files_of_others_in_the_repository_stay(hub, client, folder):
    publish(folder, REPO)
    header = {"key": "header", "value": {"summary": "Add a licence"}}
    lines = [header, file_line("LICENSE", b"MIT")]
    hub.repositories[REPO].commit("main", lines, "writer", False)
    assert not publish(folder, REPO).is_new
    (folder / "figures" / "scores.svg").write_text("<svg></svg>")
    publish(folder, REPO)
    assert history(hub)[0].files["LICENSE"].content == b"MIT"


# -- branches, tags, pull requests -----------------------------------------------------


def test_a_branch_is_created_and_main_left_alone(hub, client, folder):
    published = publish(folder, REPO, revision="next/v2")
    assert history(hub) == []
    [commit] = history(hub, "next/v2")
    assert commit.oid == published.commit
    assert_holds(commit, folder)
    assert not publish(folder, REPO, revision="next/v2").is_new


def test_a_repository_without_its_branch_is_named(hub, client, folder, monkeypatch):
    listed = HfApi.list_repo_refs

    def without_main(*arguments, **options):
        refs = listed(*arguments, **options)
        refs.branches = [replace(refs.branches[0], name="trunk")]
        return refs

    monkeypatch.setattr(HfApi, "list_repo_refs", without_main)
    says = r"Expected the branch main in org/ours-256, but .* \(there is trunk\)"
    with pytest.raises(ValueError, match=says):
        publish(folder, REPO)
    assert_nothing_half(hub)


def test_a_pull_request_leaves_main_alone(hub, client, folder):
    published = publish(folder, REPO, create_pr=True)
    assert history(hub) == []
    [commit] = history(hub, "refs/pr/1")
    assert_holds(commit, folder)
    assert published.commit == commit.oid
    assert published.url == f"{hub.url}/{REPO}/discussions/1"


def test_the_same_pull_request_is_not_opened_twice(hub, client, folder):
    first = publish(folder, REPO, create_pr=True)
    again = publish(folder, REPO, create_pr=True)
    assert (again.url, again.commit, again.is_new) == (first.url, first.commit, False)
    assert list(hub.repositories[REPO].pulls) == ["refs/pr/1"]
    (folder / "figures" / "scores.svg").write_text("<svg></svg>")
    assert publish(folder, REPO, create_pr=True).is_new
    assert list(hub.repositories[REPO].pulls) == ["refs/pr/1", "refs/pr/2"]


def test_what_main_holds_needs_no_pull_request(hub, client, folder):
    publish(folder, REPO)
    published = publish(folder, REPO, create_pr=True)
    assert not hub.repositories[REPO].pulls
    assert published.url == f"{hub.url}/{REPO}"
    assert not published.is_new


def test_a_tag_that_is_taken_is_refused_before_anything_is_uploaded(hub, client, folder):
    first = publish(folder, REPO, tag="v1")
    assert publish(folder, REPO, tag="v1").commit == first.commit
    (folder / "figures" / "scores.svg").write_text("<svg></svg>")
    with pytest.raises(ValueError, match="The tag v1 of org/ours-256 is there"):
        publish(folder, REPO, tag="v1")
    assert len(history(hub)) == 1
    assert hub.repositories[REPO].tags == {"v1": first.commit}


def test_a_model_that_gives_other_vectors_is_not_called_published(hub, client, folder, monkeypatch):
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
def test_a_storage_that_changes_a_bit_is_found_before_the_tag_is_set(
    hub, client, folder, asked, file
):
    fault = hub.fail(asked, kind="alter")
    says = f"^org/ours-256 serves other content than was sent: {file}. The files were uploaded"
    with pytest.raises(ValueError, match=says):
        publish(folder, REPO, tag="v1")
    assert not fault.times
    assert hub.repositories[REPO].tags == {}
    assert_holds(history(hub)[0], folder)
    publish(folder, REPO, tag="v1")
    assert list(hub.repositories[REPO].tags) == ["v1"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"repo_id": "ours-256"}, "Expected the repository as ORG/NAME"),
        ({"repo_id": "org/ours/256"}, "Repo id must be"),
        ({"create_pr": True, "tag": "v1"}, "A pull request is made to main, and has no tag"),
        ({"create_pr": True, "revision": "next"}, "A pull request is made to main"),
    ],
)
def test_requests_that_cannot_be_are_refused(hub, client, folder, options, says):
    with pytest.raises(ValueError, match=says):
        publish(folder, **{"repo_id": REPO, **options})
    assert hub.requests == []


# -- who may ---------------------------------------------------------------------------


def test_a_private_repository_is_private(hub, client, folder):
    publish(folder, REPO, private=True)
    assert hub.repositories[REPO].private
    assert_holds(history(hub)[0], folder)


def test_a_public_repository_is_not_taken_for_a_private_one(hub, client, folder):
    hub.repositories[REPO] = Repository(REPO, private=False)
    with pytest.raises(ValueError, match="is there and public"):
        publish(folder, REPO, private=True)
    assert_nothing_half(hub)
    assert not hub.asked(LFS)


@pytest.mark.parametrize("private", [False, True])
def test_without_a_token_nothing_is_asked(hub, client, folder, private, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(ValueError, match=r"needs a token.*`hf auth login`, or set HF_TOKEN"):
        publish(folder, REPO, private=private)
    assert hub.requests == []
    assert client.loaded == []


def test_a_private_model_is_refused_without_a_token_and_downloaded_with_one(
    hub, client, folder, tmp_path, monkeypatch
):
    publish(folder, REPO, private=True)
    encoder = FastEncoder.from_pretrained(REPO, cache_folder=tmp_path / "with")
    assert encoder.dimension == 4
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


@pytest.mark.parametrize("token", [WRONG_TOKEN, "hf_a b" + "x" * 20, "hf_ä" + "x" * 30])
def test_a_wrong_token_appears_in_no_output(hub, client, folder, token, capfd, caplog, monkeypatch):
    caplog.set_level("DEBUG")
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(ValueError, match="hf auth login") as caught:
        publish(folder, REPO)
    shown = [*capfd.readouterr(), caplog.text]
    error: BaseException | None = caught.value
    while error is not None:
        shown.append(f"{error!r} {error}")
        error = error.__cause__ or error.__context__
    assert not any(part in text for text in shown for part in (token, "x" * 20))
    assert not hub.repositories


def test_a_wrong_token_from_the_environment_appears_in_no_output_of_the_command(
    hub, client, folder, monkeypatch, capfd
):
    monkeypatch.setenv("HF_TOKEN", WRONG_TOKEN)
    assert main(["publish", str(folder), REPO]) == 1
    captured = capfd.readouterr()
    assert WRONG_TOKEN not in captured.out + captured.err
    assert "Error: The token may not write to org/ours-256. The Hub answers 401" in captured.err


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
    assert published.commit == commit.oid
    assert published.is_new
    assert hub.repositories[REPO].tags == {"v1": commit.oid}
    assert (fault.times, len(client.waits)) == (0, 1)
    if kind == "429" and step != "checking the card":  # of which the client keeps no headers
        assert client.waits[0] >= 7


@pytest.mark.parametrize("kind", ["status", "lose"])
@pytest.mark.parametrize(
    ("step", "after"), [("GET .*/tree/", 1), ("HEAD /org/.*/resolve/", 0), ("GET /storage/", 0)]
)
def test_a_moment_out_of_order_while_the_commit_is_downloaded(
    hub, client, folder, step, after, kind
):
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
def test_a_pull_request_is_opened_once(hub, client, folder, kind):
    hub.fail(COMMIT, kind=kind)
    published = publish(folder, REPO, create_pr=True)
    assert list(hub.repositories[REPO].pulls) == ["refs/pr/1"]
    assert published.is_new
    assert_holds(history(hub, "refs/pr/1")[0], folder)


def test_several_faults_one_after_the_other(hub, client, folder):
    hub.fail(LFS, status=500, times=2)
    hub.fail(LFS, kind="drop")
    hub.fail(COMMIT, status=502, times=2)
    hub.fail(COMMIT, status=409)
    hub.fail(COMMIT, kind="lose")
    publish(folder, REPO)
    [commit] = history(hub)
    assert_holds(commit, folder)
    assert hub.asked(LFS) == 4


def test_a_commit_of_somebody_else_meanwhile_is_built_on(hub, client, folder, monkeypatch):
    """Also where it changed a file that did not differ when the folder was compared."""
    publish(folder, REPO)
    (folder / "figures" / "scores.svg").write_text("<svg></svg>")
    repository = hub.repositories[REPO]
    commit = repository.commit
    lines = [file_line("README.md", b"# Another"), file_line("LICENSE", b"MIT")]

    def commit_after_another(*arguments):
        monkeypatch.setattr(repository, "commit", commit)
        commit("main", [{"key": "header", "value": {"summary": "Another"}}, *lines], "he", False)
        return commit(*arguments)

    monkeypatch.setattr(repository, "commit", commit_after_another)
    publish(folder, REPO)
    assert [one.title for one in history(hub)] == ["Upload ours-256", "Another", "Upload ours-256"]
    files = history(hub)[0].files
    assert files.pop("LICENSE").content == b"MIT"
    assert_holds(history(hub)[0], folder)


@pytest.mark.parametrize("kind", ["status", "drop"])
@pytest.mark.parametrize("step", [LFS, COMMIT, "POST .*/preupload/"])
def test_an_upload_that_fails_for_good_leaves_no_commit(hub, client, folder, step, kind):
    fault = hub.fail(step, kind=kind, times=float("inf"))
    with pytest.raises(OSError, match="org/ours-256") as caught:
        publish(folder, REPO, tag="v1")
    assert "ublish again" in str(caught.value)
    assert "storage" not in str(caught.value)
    assert_nothing_half(hub)
    assert hub.repositories[REPO].tags == {}
    # huggingface_hub asks six times by itself how to upload, and so does each attempt of ours.
    assert hub.asked(step) == (36 if "preupload" in step else 6)
    # And when it is in order again, the same command goes through.
    fault.times = 0
    publish(folder, REPO, tag="v1")
    assert_holds(history(hub)[0], folder)


def test_content_that_was_damaged_on_the_way_is_refused(hub, client, folder, monkeypatch):
    keep = Repository.keep
    monkeypatch.setattr(Repository, "keep", lambda self, sha, data: keep(self, sha, data[:-1]))
    with pytest.raises(OSError, match="not what its sha256 says"):
        publish(folder, REPO)
    assert_nothing_half(hub)


def test_no_hub_at_all_is_said_in_one_line(client, folder, monkeypatch, capfd):
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    assert main(["publish", str(folder), REPO]) == 1
    assert (
        "Error: Publishing org/ours-256 failed: the Hub cannot be reached ("
        in capfd.readouterr().err
    )


def test_offline_mode_is_named(client, folder, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE is set"):
        publish(folder, REPO)


# -- dry run, and a folder that is not fit ---------------------------------------------


def test_a_dry_run_checks_and_lists_and_asks_nothing(hub, client, folder, monkeypatch, capsys):
    monkeypatch.delenv("HF_TOKEN")
    assert main(["publish", str(folder), REPO, "--dry_run"]) == 0
    printed = capsys.readouterr().out
    for path in folder.rglob("*"):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            [line] = [line for line in printed.splitlines() if line.startswith(f"{name} ")]
            assert line.split()[1] == f"{path.stat().st_size:,}"
    assert printed.endswith("would go to org/ours-256. Nothing was uploaded.\n")
    assert hub.requests == []
    assert client.loaded == [(str(folder), None, None)]


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_folder_that_is_not_fit_is_not_uploaded(hub, client, folder, dry_run):
    (folder / "notes.txt").write_text("private")
    with pytest.raises(ValueError, match=r"notes\.txt is not part of a model"):
        publish(folder, REPO, dry_run=dry_run)
    assert hub.requests == []


def test_the_command_lists_what_is_wrong_with_a_folder(hub, client, folder, capsys):
    (folder / "notes.txt").write_text("private")
    (folder / "README.md").unlink()
    assert main(["publish", str(folder), REPO]) == 1
    first, *problems = capsys.readouterr().err.splitlines()
    assert first.startswith("Error: ")
    assert [problem[:2] for problem in problems] == ["- ", "- "]
    assert hub.requests == []


# -- the command -----------------------------------------------------------------------


def test_the_command_gives_every_option(folder, monkeypatch, capsys):
    calls = []

    def remember(model, repo_id, **options):
        calls.append((model, {"repo_id": repo_id, **options}))
        return Published(REPO, [], "https://hub/org/ours-256", "c" * 40, True, "v1")

    monkeypatch.setattr(hub_module, "publish", remember)
    assert main(["publish", str(folder), REPO]) == 0
    flags = ["--private", "--create_pr", "--allow_remote_code"]
    values = ["--revision", "next", "--tag", "v1"]
    assert main(["publish", str(folder), REPO, *flags, *values]) == 0
    plain = {"repo_id": REPO, "private": False, "revision": None, "create_pr": False}
    plain |= {"tag": None, "dry_run": False, "allow_remote_code": False}
    given = {**plain, "private": True, "create_pr": True, "allow_remote_code": True}
    assert calls == [(folder, plain), (folder, {**given, "revision": "next", "tag": "v1"})]
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("Published: https://hub/org/ours-256 (")
    assert "commit cccccccccccc, tag v1" in printed[0]


# -- the comparison --------------------------------------------------------------------


def test_texts_come_from_all_over_the_vocabulary(folder, tmp_path):
    texts = texts_to_compare(ModelFolder(folder))
    encoder = FastEncoder.from_pretrained(folder)
    tokens = {token for text in texts for token in encoder.model.tokenizer.encode(text).tokens}
    assert {"read", "rows", "today", "a", "h"} <= tokens
    assert len(texts_to_compare(ModelFolder(tmp_path))) > 3


@pytest.mark.parametrize(
    ("published", "says"),
    [
        (np.ones((2, 3)), "expected the shape .2, 2., but got .2, 3."),
        (np.array([[1, 1], [1, np.nan]]), "1 of 2 texts differ"),
        (np.array([[1, 1], [1, 1 + 2e-6]]), "1 of 2 texts differ"),
    ],
)
def test_other_vectors_are_told(published, says):
    with pytest.raises(ValueError, match=says):
        check_equal(np.ones((2, 2)), published, "org/ours-256")


def test_vectors_that_are_no_numbers_in_both_are_equal():
    """In float16 a text without a known word is."""
    unknown = np.array([[np.nan, 1]])
    check_equal(unknown, unknown.copy(), "org/ours-256")
    with pytest.raises(ValueError, match="1 of 1 texts differ"):
        check_equal(unknown, np.ones((1, 2)), "org/ours-256")


def test_a_difference_counts_by_the_length_of_its_vector():
    """As float32 rounds: a transformer's vectors may be long, beside a table's of length 1."""
    local = np.array([[20.0, 1], [0.5, 1]])
    check_equal(local, local + np.array([[2e-5, 0], [5e-7, 0]]), "org/ours-256")
    with pytest.raises(ValueError, match="1 of 2 texts differ"):
        check_equal(local, local + np.array([[0, 0], [2e-5, 0]]), "org/ours-256")
    infinite = np.array([[np.inf, 1]])
    with pytest.raises(ValueError, match="1 of 1 texts differ"):
        check_equal(infinite, np.array([[np.inf, 99]]), "org/ours-256")


# -- from a recipe ---------------------------------------------------------------------


def test_a_recipe_is_built_scored_and_published_in_one_go(hub, client, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    teacher = save_tiny_teacher(tmp_path / "teacher")
    config = small_config(teacher, write_corpus(tmp_path / "corpus.txt"), tmp_path)
    recipe = yaml.safe_dump({**asdict(config), "output": "models/tiny", "work_dir": "work"})
    (tmp_path / "recipe.yaml").write_text(recipe)
    sentences = generated_sentences(60, seed=7)
    pairs = {"sentence1": sentences[:30], "sentence2": sentences[30:], "score": list(range(30))}
    (tmp_path / "data/STS12").mkdir(parents=True)
    pq.write_table(pa.table(pairs), tmp_path / "data/STS12/test.parquet")
    run = runpy.run_path(str(Path(__file__).parents[2] / "recipes/build.py"))["run"]
    for module in (gather, facts):  # on a busy machine, too
        monkeypatch.setattr(module, "is_believable", lambda rows, model: True)
    scored = ["--tasks", "STS12", "--data", "data", "--export.license", "mit"]
    with pytest.raises(ValueError, match=r"--corpus\.description .* and --corpus\.license"):
        run(["recipe.yaml", "--publish", REPO, *scored])
    scored += ["--corpus.description", "invented words", "--corpus.license", "cc0-1.0"]
    with pytest.raises(ValueError, match=r"--teacher\.hub_id ORG/NAME"):
        run(["recipe.yaml", "--publish", REPO, *scored])
    assert not (tmp_path / "models").exists()
    scored += ["--teacher.hub_id", "org/random-weights"]
    assert run(["recipe.yaml", "--publish", REPO, *scored]) == 0
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


def test_a_model_that_was_trained_further_is_published(hub, client, fine_tuned):
    assert main(["card", str(fine_tuned), "--hub_id", REPO]) == 0
    assert main(["publish", str(fine_tuned), REPO]) == 0
    [commit] = history(hub)
    assert_holds(commit, fine_tuned)


def test_nothing_is_built_that_cannot_be_published(client, monkeypatch):
    run = runpy.run_path(str(Path(__file__).parents[2] / "recipes/build.py"))["run"]
    recipes = Path(__file__).parents[2] / "recipes"
    with pytest.raises(ValueError, match="An ensemble is published by itself"):
        run([str(recipes / "ensemble-512.yaml"), "--publish", REPO])
    with pytest.raises(ValueError, match="ORG/NAME"):
        run(["--publish", "ours-256"])
    with pytest.raises(ValueError, match="for --publish"):
        run(["--tasks", "STS12"])
    with pytest.raises(ValueError, match=r"export\.license: .*'nonsense'"):
        run(["--publish", REPO, "--export.license", "nonsense"])
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(ValueError, match="needs a token"):
        run(["--publish", REPO])


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

DEMO = f"spaces/{REPO}-demo"


def space_history(hub):
    return hub.repositories[DEMO].history("main")[:-1]


def test_a_demo_is_published_beside_the_model_and_linked_from_its_card(hub, client, folder, capsys):
    before = (folder / "README.md").read_text()
    assert main(["publish", str(folder), REPO, "--demo", "--tag", "v1"]) == 0
    url = f"{hub.url}/{DEMO}"
    [commit] = space_history(hub)
    assert {"index.html", "style.css", "js/main.js", "model/model.json"} <= commit.files.keys()
    header = yaml.safe_load(commit.files["README.md"].content.decode().split("---")[1])
    assert header["sdk"] == "static"
    assert header["models"] == [REPO]
    assert header["title"] == "ours-256 demo"
    assert commit.title == f"Upload the demo of {REPO}"
    [uploaded] = history(hub)
    assert_holds(uploaded, folder)
    card = (folder / "README.md").read_text()
    assert card.startswith(before.rstrip())
    assert card.count(f"]({url})") == 1
    assert hub.repositories[REPO].tags == {"v1": uploaded.oid}
    said = capsys.readouterr().out.splitlines()
    assert [line.split(" (")[0] for line in said] == [
        f"Published: {hub.url}/{REPO}",
        f"Published: {url}",
    ]


def test_a_demo_is_not_uploaded_again_and_loses_what_another_version_had(
    hub, client, folder, capsys
):
    command = ["publish", str(folder), REPO, "--demo"]
    assert main(command) == 0
    card = (folder / "README.md").read_bytes()
    assert main(command) == 0
    assert capsys.readouterr().out.count("The same files are there already") == 2
    assert (folder / "README.md").read_bytes() == card
    assert len(space_history(hub)) == len(history(hub)) == 1
    facts = {"model/model.json": b'{"written_by": "st_static demo"}'}
    older = {"js/old.js": b"", "mine.txt": b"", "index.html": b"old"}
    hub.repositories[DEMO].fill(facts | older)
    assert main(command) == 0
    files = space_history(hub)[0].files
    assert "js/old.js" not in files
    assert "mine.txt" in files
    assert files["index.html"].content != b"old"


def test_the_line_in_the_card_stands_behind_the_notes(hub, client, folder):
    notes = "<!-- notes: start -->\r\nMine.\r\n<!-- notes: end -->\r\n\r\nMore.\r\n"
    card = folder / "README.md"
    card.write_bytes(card.read_bytes() + notes.encode())
    before = card.read_bytes().decode()
    publish_with_demo(folder, REPO)
    after = card.read_bytes().decode()
    line = next(line for line in after.splitlines() if DEMO in line)
    assert after.replace(f"\n\n{line}", "") == before
    assert after.index("notes: end") < after.index(line) < after.index("More.")


def test_a_dry_run_lists_the_files_of_the_demo_and_changes_nothing(hub, client, folder, capsys):
    before = (folder / "README.md").read_bytes()
    assert main(["publish", str(folder), REPO, "--demo", "--dry_run"]) == 0
    said = capsys.readouterr().out
    assert "model/table.safetensors " in said
    assert f"would go to {REPO}. Nothing was uploaded." in said
    assert f"would go to {REPO}-demo. Nothing was uploaded." in said
    assert hub.requests == []
    assert (folder / "README.md").read_bytes() == before


def test_the_demo_of_a_private_model_is_private_and_known_again(hub, client, folder):
    for _ in range(2):
        publish_with_demo(folder, REPO, private=True)
    assert hub.repositories[REPO].private
    assert hub.repositories[DEMO].private
    assert len(space_history(hub)) == 1


def test_errors_that_pass_are_waited_for_with_a_demo_too(hub, client, folder):
    hub.fail(f"POST /api/{DEMO}/commit/", status=503)
    publish_with_demo(folder, REPO)
    assert client.waits == [1.0]
    assert len(space_history(hub)) == 1


def test_a_space_that_holds_something_else_is_left_alone(hub, client, folder):
    before = (folder / "README.md").read_bytes()
    hub.add(DEMO, {"app.py": b"mine", "README.md": b"mine"})
    with pytest.raises(ValueError, match=r"holds something that is not a demo of st_static"):
        publish_with_demo(folder, REPO)
    assert REPO not in hub.repositories
    assert len(space_history(hub)) == 1
    assert (folder / "README.md").read_bytes() == before


def test_a_space_is_no_demo_by_the_name_of_a_file_alone(hub, client, folder):
    hub.add(DEMO, {"model/model.json": b'{"format": "layers-model"}', "js/main.js": b"mine"})
    hub.fail(f"GET /{DEMO}/resolve/", status=503)
    with pytest.raises(ValueError, match=r"holds something that is not a demo of st_static"):
        publish_with_demo(folder, REPO)
    assert client.waits == [1.0]
    assert hub.asked(f"GET /{DEMO}/resolve/main/model/model.json") == 2
    assert REPO not in hub.repositories
    assert len(space_history(hub)) == 1


def test_a_space_that_cannot_be_looked_into_is_left_alone(hub, client, folder):
    publish_with_demo(folder, REPO)
    hub.fail(f"GET /{DEMO}/resolve/", status=403)
    with pytest.raises(ValueError, match=f"may not write to {REPO}-demo"):
        publish_with_demo(folder, REPO)
    assert len(space_history(hub)) == 1


def test_a_new_space_may_hold_what_the_hub_puts_there(hub, client, folder):
    hub.add(DEMO, {"README.md": b"template", "index.html": b"template"})
    publish_with_demo(folder, REPO)
    assert b"template" not in space_history(hub)[0].files["index.html"].content


@pytest.mark.parametrize("option", [["--create_pr"], ["--revision", "other"]])
def test_a_demo_of_what_is_not_on_main_is_refused(option, hub, client, folder, capsys):
    assert main(["publish", str(folder), REPO, "--demo", *option]) == 1
    assert "leave out --revision and --create_pr" in capsys.readouterr().err
    assert hub.requests == []


def test_a_model_that_cannot_run_in_a_browser_is_refused_before_anything_is_sent(
    hub, client, folder
):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["pre_tokenizer"] = {"type": "UnicodeScripts"}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    before = (folder / "README.md").read_bytes()
    with pytest.raises(ValueError, match="no pre-tokenizer UnicodeScripts"):
        publish_with_demo(folder, REPO)
    assert hub.requests == []
    assert (folder / "README.md").read_bytes() == before


def test_a_demo_of_a_published_model_names_it(hub, client, folder, tmp_path):
    publish(folder, REPO)
    assert main(["demo", REPO, "--output", str(tmp_path / "demo")]) == 0
    header = yaml.safe_load((tmp_path / "demo" / "README.md").read_text().split("---")[1])
    assert header["title"] == "ours-256 demo"
    assert header["models"] == [REPO]
    assert header["license"] == "apache-2.0"
