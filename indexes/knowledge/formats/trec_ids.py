"""Ids as columns of TREC's files, which white space separates: a reversible encoding."""

from __future__ import annotations

from urllib.parse import quote, unquote_to_bytes

_ENCODED = "%:"
"""Begins an encoded id. No URL begins with it, so ids that others wrote are not mistaken for encoded ones."""


def to_column(id: str) -> str:
    """Returns an id as a column: unchanged, or `%:` and the id with all but letters, digits and `_.-~` percent-encoded.

    An id is encoded if it is empty, contains white space or a character that is not printable, or begins with `%:`.

    Example:
        >>> to_column("https://kb.example/San%20Marino"), to_column("New Zealand"), to_column("")
        ('https://kb.example/San%20Marino', '%:New%20Zealand', '%:')
    """
    if id and id.isprintable() and " " not in id and not id.startswith(_ENCODED):
        return id
    return _ENCODED + quote(id, safe="", errors="surrogatepass")


def from_column(column: str) -> str:
    """Returns the id in a column, the inverse of `to_column`."""
    if not column.startswith(_ENCODED):
        return column
    return unquote_to_bytes(column.removeprefix(_ENCODED)).decode(errors="surrogatepass")
