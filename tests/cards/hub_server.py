"""A Hub on the loopback: the part of its protocol that huggingface_hub's up- and downloads use.

It keeps repositories in memory, checks sha256, and can be told to misbehave: `hub.fail(...)`.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hub_store import Blob, RefusedError, Repository, goes_to_lfs
from huggingface_hub import constants

TOKEN = "hf_" + "w" * 34
"""May write into the organisation `org`."""
READ_TOKEN = "hf_" + "r" * 34
"""May only read."""
_USERS = {TOKEN: "writer", READ_TOKEN: "reader"}
_REPO = r"(?P<repo>(?:(?:datasets|spaces)/)?[^/]+/[^/]+)"
_API = rf"/api/(?:models/)?{_REPO}"


def connect(url: str, home: Path, patch: pytest.MonkeyPatch) -> None:
    """Let this process ask a Hub, with an empty cache and no token; the other tests may not."""
    patch.setattr(constants, "ENDPOINT", url)
    template = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    patch.setattr(constants, "HF_HUB_OFFLINE", False)
    patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    patch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    patch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
    patch.delenv("HF_TOKEN", raising=False)


FaultKind = Literal["status", "drop", "lose", "alter"]


@dataclass
class Fault:
    """Misbehaviour on requests that match, so many times, after so many that are answered.

    `drop` closes the connection in the middle of the body, the request's or, if it has none, the
    answer's; `lose` does what was asked and closes the connection instead of answering; `alter`
    changes a bit of a file's content.
    """

    pattern: str
    times: float
    kind: FaultKind
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    after: int = 0


class Hub:
    """The server: its `url`, `repositories`, what was asked so far, and faults to come."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.requests: list[str] = []
        self.ranges: list[str] = []
        self.sent_bytes = 0
        self.lock = threading.Lock()
        self._faults: list[Fault] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.hub = self  # type: ignore[attr-defined]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def storage_url(self) -> str:
        """Where large files are: on another host, as with the Hub."""
        return f"http://localhost:{self._server.server_address[1]}/storage"

    def add(self, name: str, files: Mapping[str, bytes], tag: str | None = None) -> None:
        """Add a repository that everybody may read; a dataset's name begins with `datasets/`."""
        repository = Repository(name, private=False)
        repository.fill(files)
        if tag:
            repository.tags[tag] = repository.heads["main"]
        self.repositories[name] = repository

    @contextmanager
    def running(self) -> Iterator[Hub]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def fail(
        self,
        pattern: str,
        kind: FaultKind = "status",
        status: int = 500,
        headers: dict[str, str] | None = None,
        times: float = 1,
        after: int = 0,
    ) -> Fault:
        """Misbehave on the next requests whose `METHOD /path` matches."""
        fault = Fault(pattern, times, kind, status, headers or {}, after)
        self._faults.append(fault)
        return fault

    def fault_of(self, request: str) -> Fault | None:
        """The fault that a request meets; counts it."""
        with self.lock:
            for fault in self._faults:
                if fault.times > 0 and re.search(fault.pattern, request):
                    if fault.after:
                        fault.after -= 1
                        continue
                    fault.times -= 1
                    return fault
        return None

    def asked(self, pattern: str) -> int:
        """How many requests so far match."""
        return sum(bool(re.search(pattern, request)) for request in self.requests)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body in one packet, without waiting for the other side.
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        pass

    @property
    def hub(self) -> Hub:
        return self.server.hub  # type: ignore[attr-defined,no-any-return]

    def _handle(self) -> None:
        url = urlsplit(self.path)
        request = f"{self.command} {unquote(url.path)}"
        with self.hub.lock:
            self.hub.requests.append(request)
        fault = self.hub.fault_of(request)
        has_body = int(self.headers.get("Content-Length") or 0) > 0
        if fault and fault.kind == "drop" and has_body:
            self.rfile.read(int(self.headers["Content-Length"]) // 2)
            self._hang_up()
            return
        body = self._read_body()
        if fault and fault.kind == "status":
            # Not in JSON: what answers then is often a server before the Hub.
            headers = {"Content-Type": "text/html", **fault.headers}
            self._answer(fault.status, b"<html>Out of order</html>", headers)
            return
        self._cut = bool(fault and fault.kind == "drop")
        self._lost = bool(fault and fault.kind == "lose")
        self._altered = bool(fault and fault.kind == "alter")
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        try:
            self._route(request, url.path, query, body)
        except RefusedError as refused:
            headers = {"X-Error-Code": refused.code, "X-Error-Message": str(refused)}
            self._answer(refused.status, {"error": str(refused)}, headers)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815

    def _route(self, request: str, path: str, query: dict[str, str], body: bytes) -> None:
        for pattern, method in _ROUTES:
            match = re.fullmatch(pattern, f"{self.command} {path}")
            if match:
                parts = {name: unquote(part) for name, part in match.groupdict().items() if part}
                if "repo" in parts:
                    parts["repo"] = self._repository(parts["repo"])  # type: ignore[assignment]
                method(self, query=query, body=body, **parts)
                return
        raise RefusedError(404, f"Nothing is known of {request}", "EntryNotFound")

    # -- connection --------------------------------------------------------------------

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _hang_up(self) -> None:
        # With a reset, as a connection breaks, not with an orderly end.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _answer(
        self, status: int, value: Any = None, headers: dict[str, str] | None = None
    ) -> None:
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        if getattr(self, "_lost", False):
            self._lost = False
            self._hang_up()
            return
        self.send_response(status)
        names = {name.lower() for name in headers or {}}
        if "content-type" not in names:
            self.send_header("Content-Type", "application/json")
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        if "content-length" not in names:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if getattr(self, "_cut", False):
            self._cut = False
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.wfile.write(content)
        with self.hub.lock:
            self.hub.sent_bytes += len(content)

    # -- who may do what ---------------------------------------------------------------

    def _user(self) -> str | None:
        header = self.headers.get("Authorization")
        if header is None:
            return None
        user = _USERS.get(header.removeprefix("Bearer "))
        if user is None:
            raise RefusedError(401, "Invalid username or password.")
        return user

    def _repository(self, name: str) -> Repository:
        user = self._user()
        repository = self.hub.repositories.get(name)
        if repository is None or (repository.private and user is None):
            raise RefusedError(404 if user else 401, "Repository not found", "RepoNotFound")
        return repository

    def _writer(self) -> str:
        user = self._user()
        if user != "writer":
            raise RefusedError(403 if user else 401, "You need a token that may write here")
        return user

    # -- routes ------------------------------------------------------------------------

    def _whoami(self, **_: Any) -> None:
        user = self._user()
        if user is None:
            raise RefusedError(401, "Invalid username or password.")
        self._answer(200, {"type": "user", "name": user, "orgs": [{"name": "org"}]})

    def _create(self, body: bytes, **_: Any) -> None:
        self._writer()
        wish = json.loads(body)
        name = f"{wish['organization']}/{wish['name']}"
        if wish["organization"] != "org":
            raise RefusedError(403, f"You don't have the rights to create {name}")
        if wish.get("type") == "space":
            if wish.get("sdk") != "static":
                raise RefusedError(400, "A Space needs an SDK")
            name = f"spaces/{name}"
        url = f"{self.hub.url}/{name}"
        if name in self.hub.repositories:
            self._answer(409, {"error": "You already created this model repo", "url": url})
            return
        self.hub.repositories[name] = Repository(name, wish.get("visibility") == "private")
        self._answer(200, {"url": url, "name": name})

    def _validate_yaml(self, **_: Any) -> None:
        self._answer(200, {"errors": [], "warnings": []})

    def _info(self, repo: Repository, revision: str = "main", **_: Any) -> None:
        commit = repo.find(revision)
        siblings = [{"rfilename": path} for path in sorted(commit.files)]
        description = {"id": repo.name, "sha": commit.oid, "private": repo.private}
        self._answer(200, {**description, "tags": [], "siblings": siblings})

    def _tree(
        self, repo: Repository, revision: str, query: dict[str, str], folder: str = "", **_: Any
    ) -> None:
        is_recursive = query.get("recursive", "").lower() == "true"
        self._answer(200, repo.tree(revision, is_recursive, folder))

    def _paths_info(self, repo: Repository, revision: str, body: bytes, **_: Any) -> None:
        files = repo.find(revision).files
        form = parse_qs(body.decode())
        paths = form["paths"] if "paths" in form else json.loads(body)["paths"]
        self._answer(200, [files[path].describe(path) for path in paths if path in files])

    def _refs(self, repo: Repository, **_: Any) -> None:
        def describe(refs: dict[str, str], prefix: str) -> list[dict[str, str]]:
            return [
                {"name": name, "ref": prefix + name, "targetCommit": oid}
                for name, oid in refs.items()
            ]

        branches, tags = describe(repo.heads, "refs/heads/"), describe(repo.tags, "refs/tags/")
        pulls = describe(repo.pulls, "")
        described = {"branches": branches, "tags": tags, "converts": [], "pullRequests": pulls}
        self._answer(200, described)

    def _discussions(self, repo: Repository, query: dict[str, str], **_: Any) -> None:
        found = [
            {
                "title": repo.find(f"refs/pr/{number}").title,
                "num": int(number),
                "author": {"name": author},
                "createdAt": "2026-01-01T00:00:00.000Z",
                "status": "open",
                "isPullRequest": True,
                "repo": {"name": repo.name, "type": "model"},
            }
            for number, author in repo.authors.items()
            if query.get("author", author) == author
        ]
        self._answer(200, {"discussions": found, "count": len(found), "start": 0})

    def _preupload(self, repo: Repository, revision: str, body: bytes, **_: Any) -> None:
        self._writer()
        known = repo.find(revision).files
        answers = []
        for file in json.loads(body)["files"]:
            sample = base64.b64decode(file["sample"])
            is_lfs = goes_to_lfs(file["path"], file["size"], sample)
            answer = {"path": file["path"], "uploadMode": "lfs" if is_lfs else "regular"}
            oid = known[file["path"]].etag if file["path"] in known else None
            answers.append({**answer, "shouldIgnore": False, "oid": oid})
        self._answer(200, {"files": answers})

    def _lfs_batch(self, repo: Repository, body: bytes, **_: Any) -> None:
        self._writer()
        objects = []
        for wanted in json.loads(body)["objects"]:
            if wanted["oid"] not in repo.objects:
                upload = f"{self.hub.storage_url}/{repo.name}/{wanted['oid']}"
                verify = f"{self.hub.url}/{repo.name}.git/info/lfs/objects/verify"
                wanted["actions"] = {"upload": {"href": upload}, "verify": {"href": verify}}
            objects.append(wanted)
        self._answer(200, {"transfer": "basic", "objects": objects})

    def _upload(self, name: str, sha256: str, body: bytes, **_: Any) -> None:
        # Who knows the address may write to it and read from it, without a token.
        self.hub.repositories[name].keep(sha256, body)
        self._answer(200)

    def _lfs_verify(self, repo: Repository, body: bytes, **_: Any) -> None:
        wanted = json.loads(body)
        if len(repo.objects.get(wanted["oid"], b"")) != wanted["size"]:
            raise RefusedError(404, "The content has not arrived")
        self._answer(200)

    def _commit(
        self, repo: Repository, revision: str, query: dict[str, str], body: bytes, **_: Any
    ) -> None:
        author = self._writer()
        lines = [json.loads(line) for line in body.splitlines()]
        with self.hub.lock:
            commit, number = repo.commit(revision, lines, author, query.get("create_pr") == "1")
        url = f"{self.hub.url}/{repo.name}"
        answer = {"commitOid": commit.oid, "commitUrl": f"{url}/commit/{commit.oid}"}
        if number:
            answer["pullRequestUrl"] = f"{url}/discussions/{number}"
        self._answer(200, answer)

    def _branch(self, repo: Repository, name: str, **_: Any) -> None:
        self._writer()
        if name in repo.heads:
            raise RefusedError(409, "Reference already exists")
        repo.heads[name] = repo.heads["main"]
        self._answer(200)

    def _tag(self, repo: Repository, revision: str, body: bytes, **_: Any) -> None:
        self._writer()
        name = json.loads(body)["tag"]
        if name in repo.tags:
            raise RefusedError(409, "Tag reference exists already")
        repo.tags[name] = repo.find(revision).oid
        self._answer(200)

    def _resolve(self, repo: Repository, revision: str, path: str, **_: Any) -> None:
        commit = repo.find(revision)
        headers = {"X-Repo-Commit": commit.oid}
        try:
            blob = repo.file(revision, path)
        except RefusedError as refused:
            error = {"X-Error-Code": refused.code, "X-Error-Message": str(refused)}
            self._answer(404, {"error": str(refused)}, {**headers, **error})
            return
        if not blob.is_lfs:
            self._send_file(blob, headers)
            return
        linked = {"X-Linked-Etag": f'"{blob.etag}"', "X-Linked-Size": str(len(blob.content))}
        place = {"Location": f"{self.hub.storage_url}/{repo.name}/{blob.sha256}"}
        self._answer(302, b"", {**headers, **linked, **place})

    def _storage(self, name: str, sha256: str, **_: Any) -> None:
        self._send_file(Blob(self.hub.repositories[name].objects[sha256], True), {})

    def _send_file(self, blob: Blob, headers: dict[str, str]) -> None:
        content, status = blob.content, 200
        headers = {**headers, "ETag": f'"{blob.etag}"', "Accept-Ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted:
            self.hub.ranges.append(wanted[0])
            start, end = int(wanted[1]), int(wanted[2] or len(content) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
            content, status = content[start : end + 1], 206
        if self._altered:  # of the table the last number, and so little that no vector tells it
            content = content[:-4] + bytes([content[-4] ^ 1]) + content[-3:]
        self._answer(status, content, {**headers, "Content-Type": "application/octet-stream"})


_GIT = r"/(?P<repo>(?:spaces/)?[^/]+/[^/]+)\.git/info/lfs/objects"
_STORED = r"/storage/(?P<name>(?:(?:datasets|spaces)/)?[^/]+/[^/]+)/(?P<sha256>[0-9a-f]{64})"
_REVISION = r"(?P<revision>[^/]+)"
_ROUTES: list[tuple[str, Callable[..., None]]] = [
    (r"GET /api/whoami-v2", _Handler._whoami),
    (r"POST /api/repos/create", _Handler._create),
    (r"POST /api/validate-yaml", _Handler._validate_yaml),
    (rf"GET {_API}", _Handler._info),
    (rf"GET {_API}/revision/{_REVISION}", _Handler._info),
    (rf"GET {_API}/tree/{_REVISION}(?:/(?P<folder>.+))?", _Handler._tree),
    (rf"POST {_API}/paths-info/{_REVISION}", _Handler._paths_info),
    (rf"GET {_API}/refs", _Handler._refs),
    (rf"GET {_API}/discussions", _Handler._discussions),
    (rf"POST {_API}/preupload/{_REVISION}", _Handler._preupload),
    (rf"POST {_API}/commit/{_REVISION}", _Handler._commit),
    (rf"POST {_API}/branch/(?P<name>[^/]+)", _Handler._branch),
    (rf"POST {_API}/tag/{_REVISION}", _Handler._tag),
    (rf"POST {_GIT}/batch", _Handler._lfs_batch),
    (rf"POST {_GIT}/verify", _Handler._lfs_verify),
    (rf"PUT {_STORED}", _Handler._upload),
    (rf"(GET|HEAD) /{_REPO}/resolve/{_REVISION}/(?P<path>.+)", _Handler._resolve),
    (rf"(GET|HEAD) {_STORED}", _Handler._storage),
]
