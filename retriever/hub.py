"""Repositories on the Hugging Face hub: their names, uploads in one commit, downloads, and errors that say what to do.

The hub's client is imported when a function needs it, and by no other module of this package or of `indexes`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from retriever.card import CARD_NAME, is_generated

if TYPE_CHECKING:
    from huggingface_hub import HfApi

SETTINGS = ["*.json", "*.txt", "*.model", "*.jinja"]
"""Files of a model besides its weights: configuration, tokenizer and preprocessor; `*.model` is sentencepiece's."""
WEIGHTS = ["*.safetensors"]
UNWANTED = ["*/*", "*.bin.index.json", "*.msgpack.index.json", "*.h5.index.json"]
"""Subfolders of a model (other formats, originals) and indexes of pickled shards are never fetched."""

LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"

_NAME = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")


def split_name(name: str) -> tuple[str, str | None]:
    """Parses `org/name` or `org/name@revision` as the repository and its revision, `None` for the newest.

    Raises:
        ValueError: The name has another form.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(
            f'{name!r} is neither a folder (begins with ".", "/" or "~") nor org/name or org/name@revision'
        )
    return found["repo"], found["revision"]


def local_or_fetched(
    name: str | Path,
    revision: str | None,
    token: str | None,
    *,
    allow: Sequence[str],
    ignore: Sequence[str] = (),
    dataset: bool = False,
) -> Path:
    """Returns a folder as it is, or the cached folder of a repository, whose missing files are fetched.

    Without a network, a repository whose files are all in the cache is found there.

    Args:
        name: A folder, `org/name` or `org/name@revision`.
        revision: A commit, a branch or a tag; by default the one in `name`, else the newest.
        token: A token of the hub; by default the one that is logged in.
        allow: Patterns of the files to fetch.
        ignore: Patterns of files to leave out.
        dataset: Whether the repository is one of datasets.

    Raises:
        ValueError: The folder does not exist, or the hub does not give the files; the message says what to do.
    """
    folder = Path(name).expanduser()
    if isinstance(name, Path) or name.startswith((".", "/", "~")) or folder.is_dir():
        if not folder.is_dir():
            raise ValueError(f"{folder} does not exist; name another folder, or org/name on the hub")
        if revision is not None:
            raise ValueError(f"revision: {revision!r}, but {folder} is a folder, which has none; leave it out")
        return folder
    repo, named = split_name(name)
    if revision is not None and named is not None:
        raise ValueError(f"revision: {name} names one already; leave out one of them")
    revision = revision or named
    from huggingface_hub import snapshot_download

    with _explained(repo, revision):
        return Path(
            snapshot_download(
                repo,
                repo_type="dataset" if dataset else "model",
                revision=revision,
                token=token,
                allow_patterns=list(allow),
                ignore_patterns=list(ignore),
            )
        )


def push_files(
    repo: str,
    files: Iterable[tuple[str, Path | bytes]],
    *,
    ours: Callable[[str], bool],
    message: str,
    dataset: bool = False,
    private: bool | None = None,
    token: str | None = None,
) -> str:
    """Uploads files in one commit and returns `org/name@commit`. The repository is created if it does not exist.

    Files are uploaded one after another before the commit, so the repository never shows a part of them. Those that
    the hub has already are not uploaded again, so a killed upload resumes when it is repeated.

    Args:
        repo: `org/name`.
        files: Names with the file or the content; content is dropped once it is uploaded. A generated card does not
            replace one that was written by hand on the hub.
        ours: Tells whether a file of the repository is one that such a push writes; those of an earlier push that are
            not among `files` are deleted.
        message: The first line of the commit's message.
        dataset: Whether the repository is one of datasets.
        private: Whether to create it private; by default as the organization has it.
        token: A token of the hub; by default the one that is logged in.

    Raises:
        ValueError: The name is wrong, the hub refuses the upload, or the repository is public and not to be.
    """
    if split_name(repo)[1] is not None:
        raise ValueError(f"{repo}: an upload makes a revision of its own; leave out what is behind the @")
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    kind = "dataset" if dataset else "model"
    with _explained(repo, writing=True):
        api = HfApi(token=token)
        api.create_repo(repo, repo_type=kind, private=private, exist_ok=True)
        info = api.dataset_info(repo) if dataset else api.model_info(repo)
        if private and not info.private:
            raise ValueError(f"{repo}: exists and is public; make it private in its settings, or name another")
        there = {sibling.rfilename for sibling in info.siblings or []}
        added = []
        for name, content in files:
            if name == CARD_NAME and CARD_NAME in there and _keeps_card(api, repo, kind, content):
                continue
            operation = CommitOperationAdd(name, content)
            api.preupload_lfs_files(repo, [operation], repo_type=kind)
            added.append(operation)
        kept = {CARD_NAME, *(operation.path_in_repo for operation in added)}
        stale = sorted(name for name in there - kept if ours(name))
        deleted = [CommitOperationDelete(name) for name in stale]
        commit = api.create_commit(repo, [*deleted, *added], commit_message=message, repo_type=kind)
    return f"{repo}@{commit.oid}"


def _keeps_card(api: HfApi, repo: str, kind: str, content: Path | bytes) -> bool:
    """Tells whether the card on the hub was written by hand and ours was not."""
    ours = content if isinstance(content, bytes) else content.read_bytes()
    if not is_generated(ours.decode()):
        return False
    there = Path(api.hf_hub_download(repo, CARD_NAME, repo_type=kind))
    return not is_generated(there.read_text(encoding="utf-8"))


@contextmanager
def _explained(repo: str, revision: str | None = None, *, writing: bool = False) -> Iterator[None]:
    """Turns the errors of the hub's client into one that names the repository and says what to do."""
    # Any error of whichever HTTP library this release of the client is built on.
    from huggingface_hub.errors import HTTPError as TransportError  # type: ignore[attr-defined]

    try:
        yield
    except (OSError, RuntimeError, TransportError) as error:  # an upload of the client wraps its errors in the second
        raise ValueError(f"{repo}: {explain(error, repo, revision, writing=writing)[0]}") from error


def explain(error: Exception, repo: str, revision: str | None = None, *, writing: bool = False) -> tuple[str, bool]:
    """Explains an error of the hub's client: returns cause and fix, and whether the hub refused this account.

    Args:
        error: An error of the client, or of the HTTP library below.
        repo: The repository that was asked for.
        revision: The revision of it.
        writing: Whether it was to be changed.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )
    from huggingface_hub.errors import HTTPError as TransportError  # type: ignore[attr-defined]

    hub = constants.ENDPOINT
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    for cause in causes:
        status = cause.response.status_code if isinstance(cause, HfHubHTTPError) else None
        if writing and status == 401:
            return f"{hub} takes no upload without a valid token; {LOG_IN}", True
        if writing and status == 403:
            return "this token may not change it; use one with write access, or a name of your own", True
        if isinstance(cause, GatedRepoError) or status == 403:
            advice = f"do so at {hub}/{repo}, then set HF_TOKEN to a token of that account"
            return f"its license must be accepted first: {advice}", True
        if isinstance(cause, RepositoryNotFoundError) or status == 401:
            return f"{hub} does not have it or does not show it; check the name, or {LOG_IN}", True
        if isinstance(cause, RevisionNotFoundError):
            return f"has no revision {revision!r}; name one of its commits, branches or tags", True
        if isinstance(cause, OfflineModeIsEnabled):
            return "HF_HUB_OFFLINE is set; unset it", False
        if isinstance(cause, TransportError) and status is None:
            reason = (
                f"no connection to {hub} ({cause}); check the network and HTTPS_PROXY, or set HF_ENDPOINT to a mirror"
            )
            return f"{reason}, and try again: complete files are kept", False
    return f"{': '.join(dict.fromkeys(map(str, causes)))}; try again, complete files are kept", False
