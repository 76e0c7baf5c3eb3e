"""A fake Hugging Face hub over real HTTP: what its client asks for, with the faults that a real one can have.

Uploads are in `tests/fakes/hub_uploads.py`.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.fakes.hub_uploads import upload

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = (".safetensors", ".bin", ".pth", ".npy", ".faiss", ".tar")
"""Files that the hub keeps apart, with a SHA-256; the others have Git's hash."""

UPLOADS_WARN = "ignore:Use 'content=:DeprecationWarning"
"""The client's own warning: it uploads with LFS in a way that its HTTP library has deprecated."""


def git_sha(content: bytes) -> str:
    """Returns Git's hash of a blob, as `git hash-object` prints it."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class FakeHub:
    """The contents and faults of a hub.

    Attributes:
        repos: Files of each repository at the head of `main` and of `refs/pr/1`; datasets are named
            `datasets/org/name`.
        commits: The commits of each uploaded repository, oldest first, with their files; other repositories have only
            `COMMIT`.
        gated: Repositories whose license has not been accepted.
        corrupt: Files served with their first byte changed.
        short: Files listed as one byte longer than they are.
        broken: Files whose connection breaks midway, once.
        log: Method, path and Range of every request.
        tokens: Tokens with write permission; uploads need one.
        private: Repositories visible only with such a token.
        objects: Large files by their SHA-256, committed or not.
        on_put: Called with the SHA-256 of a large file before it is accepted.
    """

    repos: dict[str, dict[str, bytes]]
    gated: set[str] = field(default_factory=set)
    corrupt: set[str] = field(default_factory=set)
    short: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    log: list[tuple[str, str, str | None]] = field(default_factory=list)
    url: str = ""
    commits: dict[str, dict[str, dict[str, bytes]]] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    private: set[str] = field(default_factory=set)
    objects: dict[str, bytes] = field(default_factory=dict)
    on_put: Callable[[str], object] = lambda sha: None

    def contents_asked(self) -> list[str]:
        """Returns the names of the files whose content was requested."""
        return [path.rsplit("/", 1)[-1] for method, path, _ in self.log if method == "GET" and "/api/" not in path]

    def files(self, repo: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """Returns the commit of a revision and its files."""
        commits = self.commits.get(repo) or {COMMIT: self.repos[repo]}
        commit = list(commits)[-1] if revision in ("", "main", "refs/pr/1") else revision
        return (commit, commits[commit]) if commit in commits else None

    def entry(self, name: str, content: bytes) -> dict[str, Any]:
        """Returns the hub's listing of a file: its size and hashes."""
        size = len(content) + (name in self.short)
        entry: dict[str, Any] = {"size": size, "oid": git_sha(content)}
        if name.endswith(LARGE):
            sha = hashlib.sha256(content).hexdigest()
            entry |= {"oid": git_sha(sha.encode()), "lfs": {"oid": sha, "size": size, "pointerSize": 134}}
        return entry

    def answer(self, path: str, token: str) -> tuple[int, dict[str, str], bytes]:
        """Returns status, headers and body for a path of the API."""
        kind, *parts = path.removeprefix("/api/").split("/", 4)
        repo, verb, rest = "/".join(parts[:2]), *[*parts[2:], "", ""][:2]
        repo = repo if kind == "models" else f"{kind}/{repo}"
        if repo not in self.repos or (repo in self.private and token not in self.tokens):
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        if verb == "auth-check":
            gated = repo in self.gated
            return (403, {"X-Error-Code": "GatedRepo"}, b"{}") if gated else (200, {}, b"{}")
        found = self.files(repo, rest)
        if found is None:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        entries = {name: self.entry(name, content) for name, content in found[1].items()}
        if verb == "tree":
            return 200, {}, json.dumps([{"type": "file", "path": n, **e} for n, e in entries.items()]).encode()
        siblings = [
            {"rfilename": name, "size": entry["size"], "blobId": entry["oid"]}
            | ({"lfs": {**entry["lfs"], "sha256": entry["lfs"]["oid"]}} if "lfs" in entry else {})
            for name, entry in entries.items()
        ]
        body = {"id": repo, "sha": found[0], "siblings": siblings, "gated": "auto" if repo in self.gated else False}
        body["private"] = repo in self.private
        return 200, {}, json.dumps(body).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise a body sent after its headers would wait 40 ms
    hub: FakeHub

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._upload()

    def do_PUT(self) -> None:
        self._upload()

    def _token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def _upload(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.log.append((self.command, path, None))
        self._send(*upload(self.hub, self.command, path, self._token(), self._body()))

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _serve(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.log.append((self.command, path, self.headers.get("Range")))
        if path.startswith("/api/"):
            return self._send(*self.hub.answer(path, self._token()))
        cdn = path.startswith("/cdn")
        repo, _, rest = path.removeprefix("/cdn").strip("/").partition("/resolve/")
        revision, _, name = rest.partition("/")
        found = self.hub.files(repo, revision) if repo in self.hub.repos else None
        if found is None or name not in found[1]:
            return self._send(404, {"X-Error-Code": "EntryNotFound"}, b"")
        commit, content = found[0], found[1][name]
        entry = self.hub.entry(name, content)
        headers = {"X-Repo-Commit": commit, "Accept-Ranges": "bytes", "ETag": f'"{entry["oid"]}"'}
        if "lfs" in entry and not cdn:  # large files are stored elsewhere
            linked = {"X-Linked-Size": str(len(content)), "X-Linked-Etag": f'"{entry["lfs"]["oid"]}"'}
            return self._send(302, headers | linked | {"Location": f"{self.hub.url}/cdn{path}"}, b"")
        if name in self.hub.corrupt:
            content = bytes([content[0] ^ 1]) + content[1:]
        first = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        if first:
            headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
        self._send(206 if first else 200, headers, content[first:], broken=name in self.hub.broken)
        if self.command == "GET":
            self.hub.broken.discard(name)

    def _send(self, status: int, headers: dict[str, str], body: bytes, broken: bool = False) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if broken else body)
            self.close_connection = self.close_connection or broken


def be_the_only_hub(hub: FakeHub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes this process's client use only `hub`, with `cache` as its cache and without a login."""
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)  # the fake speaks LFS
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(cache / "no-token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)


@contextmanager
def serve_hub(hub: FakeHub) -> Iterator[FakeHub]:
    """Serves `hub` on a free loopback port, sets its `url` and yields it."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        hub.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join(10)


@contextmanager
def logged_in_hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """Yields an empty hub, the only one that this process's client uses, logged in."""
    with serve_hub(FakeHub({}, tokens={"secret"})) as hub:
        be_the_only_hub(hub, cache, monkeypatch)
        monkeypatch.setenv("HF_TOKEN", "secret")
        yield hub
