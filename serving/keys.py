"""API keys: generated at random, stored as SHA-256 digests, compared in constant time.

SHA-256 is enough: a key is 32 random bytes, so it cannot be guessed from its digest. Slow hashes protect passwords,
which people choose; here, one would only slow down every request.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from serving.errors import ApiError

CHALLENGE = 'Bearer realm="omgm"'
"""The WWW-Authenticate header of refusals, by which `omgm doctor` recognizes this service."""

_CHALLENGED = {"WWW-Authenticate": CHALLENGE}
_WRITING = ("PUT", "PATCH", "DELETE")


def new_key() -> str:
    """Returns a new random key."""
    return f"omgm-{secrets.token_urlsafe(32)}"


def digest_of(key: str) -> str:
    """Returns the SHA-256 digest of a key in hexadecimal, as used in the settings."""
    return hashlib.sha256(key.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """The keys of a service, as digests. Reading and writing have separate keys, and neither implies the other.

    Without read keys, everybody may read. Without write keys, nobody may write, unless there are no keys at all.

    Attributes:
        read: Digests of the keys that may ask.
        write: Digests of the keys that may change the index: PUT, PATCH and DELETE.
    """

    read: Sequence[str] = ()
    write: Sequence[str] = ()

    def holder(self, method: str, authorization: str) -> str | None:
        """Returns the digest of the key that authorizes a request, or `None` if it needs no key.

        Args:
            method: The HTTP method.
            authorization: The Authorization header, or "".

        Raises:
            ApiError: 401 without a valid key, 403 with a key of the other kind.
        """
        writing = method in _WRITING
        if not self.read and not (writing and self.write):
            return None
        scheme, key = (*authorization.split(None, 1), "", "")[:2]
        key = key.strip()
        if scheme.lower() != "bearer" or not key:
            message = "this service needs a key; send it as Authorization: Bearer KEY"
            if scheme:
                message += "; there is nothing behind Bearer" if scheme.lower() == "bearer" else "; Bearer is missing"
            raise ApiError(401, "missing_api_key", message, headers=_CHALLENGED)
        digest = digest_of(key)
        allowed, other = (self.write, self.read) if writing else (self.read, self.write)
        if _contains(allowed, digest):
            return digest
        if _contains(other, digest):
            kinds = ("a write", "a read") if writing else ("a read", "a write")
            raise ApiError(403, "permission_denied", f"this needs {kinds[0]} key; the one sent is {kinds[1]} key")
        raise ApiError(401, "invalid_api_key", f"the key is not valid{_fault(key)}", headers=_CHALLENGED)


def _fault(key: str) -> str:
    """Returns the mistake that was made in copying a key, as the end of a sentence; "" if none is visible."""
    if re.match(r"bearer\b", key, re.IGNORECASE):
        return ": Bearer is there twice"
    if re.search(r"[\"'`<>]", key):
        return ": it is in quotes or brackets; send it without them"
    if re.search(r"\s", key):
        return ": it has spaces in it"
    return ": it is the digest; send the key that was printed above it" if re.fullmatch("[0-9a-f]{64}", key) else ""


def _contains(digests: Sequence[str], digest: str) -> bool:
    """Returns whether a digest is among several, in a time that depends neither on which nor on how much matches."""
    return sum(hmac.compare_digest(one, digest) for one in digests) > 0
