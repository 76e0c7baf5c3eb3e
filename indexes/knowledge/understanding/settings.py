"""Values that are no facts about a thing: settings of programs and sites, secrets, rights, names of files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from indexes.knowledge.understanding.languages import words_of
from indexes.labeled_values import folded

RIGHTS = re.compile(
    r"licen[cs]es?(?:url|name|link|text)?|rights(?:url|statement)?|usagerights|copyright(?:notice)?|termsofuse"
    r"|lizenz|licencia|licenza|(?:ima?ge?|photo|picture)s?credits?"
)
"""Names of fields about the data, not about the thing, as by `folded`."""
_SETTINGS = re.compile(
    r"layout|(?:display)?template|slug|permalink|draft|sortorder|createdat|updatedat|lastmodified|modifiedat|filesize|mimetype"
)
"""Names of fields for programs, as by `folded`."""
_OF_NOTES = words_of(
    "layout template draft date lastmod lastupdated updated created modified publishdate expirydate publish",
    "permalink slug aliases alias redirectfrom redirectto parent navorder haschildren nav sidebar",
    "sidebarposition sidebarlabel toc hide search comments math lang locale cssclass cssclasses outputs",
    "resources menu menus header footer head hero i18nready sortby paginateby insertanchorlinks inserttoc",
    "tableofcontents banner theme cascade icon share featured pagefind editurl prev next jupytext kernelspec",
)
"""Settings of site generators in front matter, which in a table are facts, as by `folded`."""
_NUMBERED = ("weight", "order")  # the same if they are numbers: a fox's weight has a unit
_PREFIXES = ("_", "dg-", "excalidraw-", "kanban-")
_OF_POSTS = words_of(
    "postid postdate postdategmt postmodified postmodifiedgmt commentstatus pingstatus postname status postparent",
    "menuorder posttype postpassword issticky attachmenturl comment postmeta guid galleryids",
)
"""Fields of a post in exports of WordPress, as by `folded`, without the prefix of their namespace."""
SECRETS = "accounts and secrets"
_SECRET = re.compile(
    r"passw(?:or)?d|passwort|passphrase|^pwd$|(?:private|secret|api|access|session)key|(?:client|api|app)secret"
    r"|(?:access|auth|refresh|api|session|csrf|bearer|reset)token|session(?:id|data)"
)
"""Names of fields that nobody may read, as by `folded`."""
_HASHED = re.compile(r"(?:pbkdf2_\w+|bcrypt(?:_sha256)?|argon2\w*|scrypt)[$:]|\$(?:2[aby]?|argon2\w*|[1567y])\$")
"""Beginnings of passwords' hashes, as frameworks and Unix store them."""
_OF_ACCOUNTS = words_of("email emailaddress mail login username user userid lastlogin")
_FILE = re.compile(
    r"(?:image|video|audio|application|model)/[\w.+-]+|compound_?object"
    r"|(?:[^\s/\\]+(?:[ ][^\s/\\]+)*)?(?:[/\\][^/\\]+)+\.[A-Za-z][A-Za-z\d]{1,4}"
    r"|\S+\.(?:pdf|mp3|mp4|ogg|wav|webm|mov|zip|html?|md|json|csv|js|css|docx?|glb|obj|stl)",
    re.IGNORECASE,
)
"""A path or a type of a file."""
_SIGNS = (".", "/", "\\", "object")  # one of them is in each
_WIKI_LINK = re.compile(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]]*)\]\]")
_NO_WORDS = re.compile(r"/\S*|\S+\.md|\d{4}-\d\d-\d\d[T ].*|<%.*|\w+://\S+|true|false")


def is_secret(name: str, value: str = "") -> bool:
    """Returns whether nobody may read a value, by the name of its field or as the hash of a password."""
    return _is_secret(name) or _HASHED.match(value) is not None


@lru_cache(maxsize=4096)
def _is_secret(name: str) -> bool:
    return _SECRET.search(folded(name)) is not None


def is_account(names: Iterable[str]) -> bool:
    """Returns whether these are the fields of an account: a secret, and whose it is.

    Example:
        >>> is_account(["id", "email", "password"]), is_account(["title", "password"])
        (True, False)
    """
    names = list(names)
    return any(map(_is_secret, names)) and any(folded(name) in _OF_ACCOUNTS for name in names)


def no_fact(name: str, value: Any, is_note: bool) -> str:
    """Returns the kind of a field that is no fact about the thing, such as "settings"; "" for other fields."""
    if reason := _by_name(name, is_note):
        return reason
    if is_note:
        key = folded(name)
        of_site = (key == "build" and isinstance(value, dict)) or (key in _NUMBERED and str(value).isdigit())
        return "settings" if of_site or isinstance(value, bool) else ""
    if isinstance(value, str) and not any(sign in value for sign in _SIGNS):
        return ""  # most values, in less time
    items = value if isinstance(value, list) else [value]
    is_files = items and all(isinstance(item, str) and _FILE.fullmatch(item.strip()) for item in items)
    return "names and types of files" if is_files else ""


@lru_cache(maxsize=4096)
def _by_name(name: str, is_note: bool) -> str:
    key = folded(name)
    if _is_secret(name):
        return SECRETS
    if RIGHTS.fullmatch(key):
        return "licenses and rights"
    of_site = is_note and (key in _OF_NOTES or name.startswith(_PREFIXES))
    return "settings" if of_site or name.startswith(("_", "@context")) or _SETTINGS.fullmatch(key) else ""


def without_links(text: str) -> str:
    """Returns a text with the words of its wiki links."""
    return _WIKI_LINK.sub(r"\1", text) if "[[" in text else text


def note_facts(facts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns the facts of a note: links are their words, and files and switches are left out."""
    said = (
        (label, "\n".join(" ".join(line.split()) for line in without_links(fact).splitlines())) for label, fact in facts
    )
    return [(label, words) for label, words in said if not _NO_WORDS.fullmatch(words)]


def aliases_in(values: Mapping[str, Any]) -> dict[str, list[str]]:
    """Returns the aliases of a note by field; they are a list or separated by commas, as in Obsidian."""
    fields = {key: value for key, value in values.items() if key.lower() in ("alias", "aliases")}
    listed = {key: value.split(",") if isinstance(value, str) else value for key, value in fields.items()}
    return {
        key: [" ".join(name.split()) for name in names if isinstance(name, str) and name.strip()]
        for key, names in listed.items()
        if isinstance(names, list)
    }


def fields_of_system(values: Mapping[str, Any]) -> list[str]:
    """Returns the fields of a post that a content system sets itself, as in exports of WordPress."""
    of_system = [name for name in values if name.startswith("wp:") or local_name(name) in _OF_POSTS]
    return of_system if any(local_name(name) == "posttype" for name in of_system) else []


@lru_cache(maxsize=4096)
def local_name(name: str) -> str:
    """Returns the name of a field as by `folded`, without the prefix of its namespace: `postid` for `wp:post_id`."""
    return folded(name.rpartition(":")[2])
