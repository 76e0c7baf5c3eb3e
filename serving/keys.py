"""API keys: generated at random, stored as SHA-256 digests, compared in constant time.

SHA-256 is enough: a key is 32 random bytes, so it cannot be guessed from its digest. Slow hashes protect passwords,
which people choose; here, one would only slow down every request.
"""

from __future__ import annotations

import hashlib
import hmac
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
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            message = "this service needs a key; send it as Authorization: Bearer KEY"
            raise ApiError(401, "missing_api_key", message, headers=_CHALLENGED)
        digest = digest_of(key.strip())
        allowed, other = (self.write, self.read) if writing else (self.read, self.write)
        if _contains(allowed, digest):
            return digest
        if _contains(other, digest):
            kinds = ("a write", "a read") if writing else ("a read", "a write")
            raise ApiError(403, "permission_denied", f"this needs {kinds[0]} key; the one sent is {kinds[1]} key")
        raise ApiError(401, "invalid_api_key", "the key is not valid", headers=_CHALLENGED)


def _contains(digests: Sequence[str], digest: str) -> bool:
    """Returns whether a digest is among several, in a time that depends neither on which nor on how much matches."""
    return sum(hmac.compare_digest(one, digest) for one in digests) > 0
