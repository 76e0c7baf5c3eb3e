"""Repositories on the Hugging Face hub: names, downloads, uploads in one commit, and errors that say what to do.

The hub client is imported only inside the functions that need it, and by no other module of this package or `indexes`.
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
UNWANTED = ["[!1]*/*", "*.bin.index.json", "*.msgpack.index.json", "*.h5.index.json"]
"""Subfolders of a model (other formats, originals), except `1_Pooling`, and indexes of pickles are never fetched."""

LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"

_NAME = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")


def split_name(name: str) -> tuple[str, str | None]:
    """Splits `org/name` or `org/name@revision` into repository and revision, `None` for the newest.

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
    """Returns a local folder unchanged, or the cached folder of a repository after fetching its missing files.

    Without a network, this works if all files of the repository are in the cache.

    Args:
        name: A folder, `org/name` or `org/name@revision`.
        revision: A commit, a branch or a tag; by default the one in `name`, else the newest.
        token: A hub token; by default the one saved by `hf auth login`.
        allow: Patterns of the files to fetch.
        ignore: Patterns of files to leave out.
        dataset: Whether this is a dataset repository.

    Raises:
        ValueError: The folder does not exist, or the files cannot be fetched; the message says what to do.
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

    Files are uploaded one by one before the commit, so the repository never shows an incomplete set. Files that the hub
    already has are not uploaded again, so repeating a killed upload resumes it.

    Args:
        repo: `org/name`.
        files: Names, each with a file or its content; content is dropped once it is uploaded. A generated card does not
            replace a handwritten one on the hub.
        ours: Tells whether a file in the repository is one that such a push writes; such files from an earlier push are
            deleted unless they are among `files`.
        message: The first line of the commit message.
        dataset: Whether this is a dataset repository.
        private: Whether to create it as private; by default the organization's setting.
        token: A hub token; by default the one saved by `hf auth login`.

    Raises:
        ValueError: The name is invalid, the hub refuses the upload, or `private` is set and the repository is public.
    """
    if split_name(repo)[1] is not None:
        raise ValueError(f"{repo}: an upload creates its own revision; leave out the @ and what follows it")
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
    """Tells whether the card on the hub is handwritten and ours is generated."""
    ours = content if isinstance(content, bytes) else content.read_bytes()
    if not is_generated(ours.decode()):
        return False
    there = Path(api.hf_hub_download(repo, CARD_NAME, repo_type=kind))
    return not is_generated(there.read_text(encoding="utf-8"))


@contextmanager
def _explained(repo: str, revision: str | None = None, *, writing: bool = False) -> Iterator[None]:
    """Turns errors of the hub client into a `ValueError` that names the repository and says what to do."""
    # Covers any error of the HTTP library that this release of the client is built on.
    from huggingface_hub.errors import HTTPError as TransportError  # type: ignore[attr-defined]

    try:
        yield
    except (OSError, RuntimeError, TransportError) as error:  # uploads wrap their errors in RuntimeError
        raise ValueError(f"{repo}: {explain(error, repo, revision, writing=writing)[0]}") from error


def explain(error: Exception, repo: str, revision: str | None = None, *, writing: bool = False) -> tuple[str, bool]:
    """Explains an error of the hub client: returns cause and fix, and whether the hub refused this account.

    Args:
        error: An error of the client, or of its HTTP library.
        repo: The requested repository.
        revision: The requested revision.
        writing: Whether the request was an upload.
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
            return f"{hub} accepts no uploads without a valid token; {LOG_IN}", True
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
