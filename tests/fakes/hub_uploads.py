"""Uploads to the fake hub: repositories, large files over the LFS protocol, and commits as JSON lines."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from huggingface_hub import RepoCard

if TYPE_CHECKING:
    from tests.fakes.hub import FakeHub

Reply = tuple[int, dict[str, str], bytes]


def upload(hub: FakeHub, method: str, path: str, token: str, body: bytes) -> Reply:
    """Returns status, headers and body for a write request."""
    if method == "PUT":  # to an address from the reply to a batch request; such addresses need no token
        sha = hashlib.sha256(body).hexdigest()
        hub.on_put(sha)
        hub.objects[sha] = body
        return _json({}) if path == f"/lfs/{sha}" else _json({"error": "other content"}, 400)
    if path == "/api/validate-yaml":
        return _validate(json.loads(body)["content"])
    if token not in hub.tokens:
        return _json({"error": "Invalid username or password."}, 401)
    if path == "/api/repos/create":
        return _create(hub, json.loads(body))
    if found := re.fullmatch(r"/(.+)\.git/info/lfs/objects/batch", path):
        return _batch(hub, json.loads(body))
    found = re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)/(preupload|commit)/main", path)
    assert found, path
    repo = found[2] if found[1] == "models" else f"datasets/{found[2]}"
    if repo not in hub.repos:
        return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
    return _preupload(hub, repo, json.loads(body)) if found[3] == "preupload" else _commit(hub, repo, body)


def _json(value: Any, status: int = 200) -> Reply:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


def _validate(content: str) -> Reply:
    """Validates the front matter like the hub, which refuses a base model that is not a model id."""
    data: Any = RepoCard(content).data
    matter = data.to_dict()
    base = matter.get("base_model", "org/name")
    errors = [] if re.fullmatch(r"[\w.-]+/[\w.-]+", base) else [{"message": '"base_model" must be a model id'}]
    warnings = [] if matter else [{"message": "empty or missing yaml metadata in repo card"}]
    return _json({"errors": errors, "warnings": warnings}, 400 if errors else 200)


def _create(hub: FakeHub, wanted: dict[str, Any]) -> Reply:
    name = f"{wanted['organization']}/{wanted['name']}"
    repo = f"datasets/{name}" if wanted.get("type") == "dataset" else name
    if wanted["organization"] == "others":
        return _json({"error": "You don't have the rights to create a model under this namespace"}, 403)
    status = 409 if repo in hub.repos else 200
    if status == 200:
        hub.repos[repo] = {".gitattributes": b""}
        if wanted.get("visibility") == "private" or wanted.get("private"):
            hub.private.add(repo)
    return _json({"url": f"{hub.url}/{repo}"}, status)


def _preupload(hub: FakeHub, repo: str, asked: dict[str, Any]) -> Reply:
    there = {name: hub.entry(name, content) for name, content in hub.repos[repo].items()}
    files = []
    for file in asked["files"]:
        large = "lfs" in hub.entry(file["path"], b"")
        reply = {"path": file["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}
        if file["path"] in there:
            entry = there[file["path"]]
            reply["oid"] = entry["lfs"]["oid"] if large else entry["oid"]
        files.append(reply)
    return _json({"files": files})


def _batch(hub: FakeHub, asked: dict[str, Any]) -> Reply:
    objects = [
        {"oid": one["oid"], "size": one["size"]}
        | ({} if one["oid"] in hub.objects else {"actions": {"upload": {"href": f"{hub.url}/lfs/{one['oid']}"}}})
        for one in asked["objects"]
    ]
    return _json({"transfer": "basic", "objects": objects})


def _commit(hub: FakeHub, repo: str, body: bytes) -> Reply:
    files = dict(hub.repos[repo])
    for line in map(json.loads, body.splitlines()):
        value = line["value"]
        if line["key"] == "file":
            files[value["path"]] = base64.b64decode(value["content"])
        elif line["key"] == "lfsFile":
            if value["oid"] not in hub.objects:
                return _json({"error": f"{value['path']} was not uploaded"}, 400)
            files[value["path"]] = hub.objects[value["oid"]]
        elif line["key"] == "deletedFile":
            del files[value["path"]]
    history = hub.commits.setdefault(repo, {})
    commit = hashlib.sha1(f"{repo} {len(history)}".encode()).hexdigest()
    hub.repos[repo] = history[commit] = files
    return _json({"commitUrl": f"{hub.url}/{repo}/commit/{commit}", "commitOid": commit, "pullRequestUrl": None})
