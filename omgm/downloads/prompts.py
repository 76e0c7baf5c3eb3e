"""Reads the published prompts of the search agents from their repositories, or from a file with the paper's appendix.

They are data of their authors, like weights: they are stored in the user's cache, never in this project. Python files
are parsed, never run.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from chat_models.proxies import sync_http_client
from retriever.files import write_json
from search_agents.policies import mmsearch_plus, mmsearch_stages, omnisearch_published, vsa
from search_agents.wordings import PublishedPrompts, check, folder

RAW = "https://raw.githubusercontent.com"
Texts = Mapping[str, str]
"""The texts of a source's files by their paths in the repository."""
_HEADING = re.compile(r"^===[ \t]*(\w+)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a method's prompts were published.

    Attributes:
        prompts: The prompts.
        repo: `owner/name` on GitHub; empty if only the paper has them.
        commit: The commit that was read.
        files: The SHA-256 of each file, by its path.
        read: Takes the prompts out of the texts of these files.
    """

    prompts: PublishedPrompts
    repo: str = ""
    commit: str = ""
    files: Mapping[str, str] | None = None
    read: Callable[[Texts], dict[str, str]] = lambda texts: {}


def download(name: str, given: Path | None = None) -> dict[str, Any]:
    """Reads the prompts of a source and stores them; returns what was stored.

    Args:
        name: A key of `SOURCES`.
        given: A clone of the repository, or a text file with the prompts (see `read_text`); by default, the files are
            downloaded at the pinned commit.

    Raises:
        ValueError: A file is missing, differs from the pinned one, or has not the prompts.
    """
    source = SOURCES[name]
    if given is not None and given.is_file():
        text = given.read_text(encoding="utf-8")
        found, origin, digests = read_text(text, source.prompts), str(given), {given.name: _sha256(text)}
    else:
        texts = _downloaded(name, source) if given is None else _cloned(given, source)
        found = source.read(texts)
        origin = f"{source.repo}@{source.commit}" if given is None else str(given)
        digests = {path: _sha256(text) for path, text in texts.items()}
    wordings = check(source.prompts, found, origin)
    stored = {
        "source": origin,
        "sha256": digests,
        "pinned": bool(source.files) and digests == source.files,
        "prompts": wordings,
    }
    folder().mkdir(parents=True, exist_ok=True)
    write_json(folder() / f"{name}.json", stored)
    return stored


def read_text(text: str, prompts: PublishedPrompts) -> dict[str, str]:
    r"""Returns the prompts of a text file: each follows a line `=== name`, until the next such line.

    A file without such a line is the only prompt of a source that has one.

    Example:
        >>> read_text("=== caption\nWhat is {label}?\n=== answer\nSo?", vsa.PUBLISHED)
        {'caption': 'What is {label}?', 'answer': 'So?'}
    """
    pieces = _HEADING.split(text)
    if len(pieces) == 1:
        return {name: text.strip() for name in prompts.required} if len(prompts.required) == 1 else {}
    return {name: body.strip("\n") for name, body in zip(pieces[1::2], pieces[2::2], strict=True)}


def _cloned(clone: Path, source: Source) -> dict[str, str]:
    texts = {}
    for path in source.files or {}:
        if not (clone / path).is_file():
            raise ValueError(f"{clone}: has no file {path}; is it a clone of {source.repo}?")
        texts[path] = (clone / path).read_bytes().decode()
    if not texts:
        raise ValueError(f"{clone}: no repository has these prompts; give a text file with the paper's appendix")
    return texts


def _downloaded(name: str, source: Source) -> dict[str, str]:
    if not source.files:
        raise ValueError(f"the prompts of {name} are only in the paper: --prompts-from FILE, a text file with them")
    texts = {}
    for path, digest in source.files.items():
        url = f"{RAW}/{source.repo}/{source.commit}/{path}"
        try:
            with sync_http_client(url, timeout=30, follow_redirects=True) as http:
                response = http.get(url).raise_for_status()
        except httpx.HTTPError as error:
            raise ValueError(f"{url} cannot be downloaded ({error}); clone it and use --prompts-from DIR") from error
        texts[path] = response.content.decode()
        if _sha256(texts[path]) != digest:
            raise ValueError(f"{url}: SHA-256 {_sha256(texts[path])} instead of {digest}; it is not the pinned file")
    return texts


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _mmsearch(texts: Texts) -> dict[str, str]:
    """Reads two modules, each with a dictionary from stages to prompts."""
    found = {}
    for kind, path in zip(("text", "image"), texts, strict=True):
        strings, tables = _assigned(texts[path], path)
        if len(tables) != 1:
            raise ValueError(f"{path}: expected one dictionary of prompts, got {len(tables)}")
        for stage, prompt in next(iter(tables.values())).items():
            found[f"{kind}_{stage}"] = _formatted(strings.get(prompt, prompt))
    return found


def _omnisearch(texts: Texts) -> dict[str, str]:
    """Reads a module with one prompt, whose only place is the question, and the texts of the messages that follow."""
    (path, text), (loop, code) = texts.items()
    strings, _ = _assigned(text, path)
    prompts = [value for value in strings.values() if "{}" in value]
    if len(prompts) != 1:
        raise ValueError(f"{path}: expected one prompt with the place {{}}, got {len(prompts)}")
    parts = _text_parts(code, loop)
    fixed = [part for part in parts if isinstance(part, str)]
    joined = [part for part in parts if isinstance(part, tuple)]
    if len(fixed) != 4 or len(joined) != 2:
        raise ValueError(
            f"{loop}: expected 4 fixed texts of messages and 2 joined ones, got {len(fixed)}, {len(joined)}"
        )
    names = ("retrieved_images", "retrieved_documents", "input_image", "solved")
    return {
        "planner": _formatted(prompts[0].replace("{}", "{question}")),
        **dict(zip(names, fixed, strict=True)),
        "description": f"{joined[0][0]}{{description}}{joined[0][1]}",
        "sub_question": f"{joined[1][0]}{{sub_question}}{joined[1][1]}",
    }


def _text_parts(code: str, path: str) -> list[str | tuple[str, str]]:
    """Returns the texts of message parts in a module, in order: fixed ones, and what stands around a variable."""
    try:
        nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Dict)]
    except SyntaxError as error:
        raise ValueError(f"{path}: not Python ({error})") from error
    parts: list[str | tuple[str, str]] = []
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
        value = next((v for k, v in zip(node.keys, node.values, strict=True) if _string(k) == "text"), None)
        if (fixed := _string(value)) is not None:
            parts.append(fixed)
        elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
            before, after = _string(value.left), _string(value.right)
            if before is not None or after is not None:
                parts.append((before or "", after or ""))
    return parts


def _vsa(texts: Texts) -> dict[str, str]:
    """Reads a module with three prompts, whose places are replaced one by one."""
    [(path, text)] = texts.items()
    strings, _ = _assigned(text, path)
    names = {"CAPTION_FORMAT": "caption", "CORRELATE_FORMAT": "correlate", "QA_FORMAT": "answer"}
    return {name: strings[variable] for variable, name in names.items() if variable in strings}


def _formatted(template: str) -> str:
    """Returns a template of `str.format` with its escaped braces as they appear."""
    return template.replace("{{", "{").replace("}}", "}")


def _assigned(text: str, path: str) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Returns the texts that a module assigns to names, and its dictionaries from texts to texts or such names."""
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        raise ValueError(f"{path}: not Python ({error})") from error
    strings: dict[str, str] = {}
    tables: dict[str, dict[str, str]] = {}
    for node in body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name, value = node.targets[0].id, node.value
        if (written := _string(value)) is not None:
            strings[name] = written
        elif isinstance(value, ast.Dict):
            tables[name] = {}
            for key, item in zip(value.keys, value.values, strict=True):
                said = item.id if isinstance(item, ast.Name) else _string(item)
                if said is not None and (named := _string(key)) is not None:
                    tables[name][named] = said
    return strings, tables


def _string(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


SOURCES: Mapping[str, Source] = {
    "mmsearch": Source(
        mmsearch_stages.PUBLISHED,
        "CaraJ7/MMSearch",
        "d340f3f5ebfe6a50b938ecf4a60bcdfb23b146d6",
        {
            "prompts/prompt.py": "44ea2fd85009d7619eb01e9025ca51e3b9d966fd640ea481f736c67823bc8b30",
            "prompts/prompt_w_imagesearch.py": "d9c7b00a165500b947a7b690940f7a349ae1da388e1c9a4d91d2528134c5dc11",
        },
        _mmsearch,
    ),
    "omnisearch": Source(
        omnisearch_published.PUBLISHED,
        "Alibaba-NLP/OmniSearch",
        "b01e78edb694fa0e8b05b808d2722d046f3f204b",
        {
            "src/Omnisearch_gpt/prompt.py": "50dcab128732eac5e9e93b263c66a2aa43a1001ae85c13ad13538ea9dc3e838c",
            "src/Omnisearch_gpt/conversation_manager.py": (
                "8766fd15fbe1e05aa2f19faceff466fbe820815dbf3ed074c5baf533098304fb"
            ),
        },
        _omnisearch,
    ),
    "vsa": Source(
        vsa.PUBLISHED,
        "cnzzx/VSA",
        "a41222f45cfbcf25b00f3d5cdf0bd68c8fedb391",
        {"models/vsa_prompt.py": "4811288299ee93b5a71b29ee70c6c36c6040ceec5fc95469dcdf27beb07adbfe"},
        _vsa,
    ),
    "mmsearch-plus": Source(mmsearch_plus.PUBLISHED),
}
"""The sources by the policy that uses them."""
