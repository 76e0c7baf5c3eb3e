"""A fake Hugging Face hub over real HTTP: what its client asks for, with the faults that a real one can have."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = (".safetensors", ".bin", ".pth")
"""Files that the hub keeps apart, with a SHA-256; the others have Git's hash."""


def git_sha(content: bytes) -> str:
    """Returns Git's hash of a blob, as `git hash-object` prints it."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class FakeHub:
    """What the hub holds and which faults it has.

    Attributes:
        repos: Files of each repository, all at `COMMIT`, the head of `main` and of `refs/pr/1`.
        gated: Repositories whose license was not accepted.
        corrupt: Files whose content comes with its first byte changed.
        short: Files listed with one byte more than they have.
        broken: Files whose connection breaks in the middle, once.
        log: Method, path and Range of every request.
    """

    repos: dict[str, dict[str, bytes]]
    gated: set[str] = field(default_factory=set)
    corrupt: set[str] = field(default_factory=set)
    short: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    log: list[tuple[str, str, str | None]] = field(default_factory=list)
    url: str = ""

    def contents_asked(self) -> list[str]:
        """Returns the names of the files whose content was asked for."""
        return [path.rsplit("/", 1)[-1] for method, path, _ in self.log if method == "GET" and "/api/" not in path]

    def entry(self, name: str, content: bytes) -> dict[str, Any]:
        """Returns the hub's listing of a file: its size and hashes."""
        size = len(content) + (name in self.short)
        entry: dict[str, Any] = {"size": size, "oid": git_sha(content)}
        if name.endswith(LARGE):
            sha = hashlib.sha256(content).hexdigest()
            entry |= {"oid": git_sha(sha.encode()), "lfs": {"oid": sha, "size": size, "pointerSize": 134}}
        return entry

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Returns status, headers and body for a path of the API."""
        parts = path.removeprefix("/api/models/").split("/", 3)
        repo, verb, rest = "/".join(parts[:2]), *[*parts[2:], "", ""][:2]
        if repo not in self.repos:
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        if verb == "auth-check":
            gated = repo in self.gated
            return (403, {"X-Error-Code": "GatedRepo"}, b"{}") if gated else (200, {}, b"{}")
        if rest and rest not in (COMMIT, "main", "refs/pr/1"):
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        entries = {name: self.entry(name, content) for name, content in self.repos[repo].items()}
        if verb == "tree":
            return 200, {}, json.dumps([{"type": "file", "path": n, **e} for n, e in entries.items()]).encode()
        siblings = [
            {"rfilename": name, "size": entry["size"], "blobId": entry["oid"]}
            | ({"lfs": {**entry["lfs"], "sha256": entry["lfs"]["oid"]}} if "lfs" in entry else {})
            for name, entry in entries.items()
        ]
        body = {"id": repo, "sha": COMMIT, "siblings": siblings, "gated": "auto" if repo in self.gated else False}
        return 200, {}, json.dumps(body).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def _serve(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.log.append((self.command, path, self.headers.get("Range")))
        if path.startswith("/api/"):
            return self._send(*self.hub.answer(path))
        cdn = path.startswith("/cdn")
        repo, _, rest = path.removeprefix("/cdn").strip("/").partition("/resolve/")
        name = rest.split("/", 1)[-1]
        if name not in self.hub.repos.get(repo, {}):
            return self._send(404, {"X-Error-Code": "EntryNotFound"}, b"")
        content = self.hub.repos[repo][name]
        entry = self.hub.entry(name, content)
        headers = {"X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes", "ETag": f'"{entry["oid"]}"'}
        if "lfs" in entry and not cdn:  # large files are kept elsewhere
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
        if self.command == "GET":
            self.wfile.write(body[: len(body) // 2] if broken else body)
            self.close_connection = self.close_connection or broken


@contextmanager
def serve_hub(hub: FakeHub) -> Iterator[FakeHub]:
    """Serves `hub` at a free port on loopback, sets its `url` and yields it."""
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
