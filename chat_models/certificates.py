"""The TLS certificates to trust: those that SSL_CERT_FILE or SSL_CERT_DIR names, or else certifi's."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def certificates() -> ssl.SSLContext:
    """Returns them. A process reads them once: it takes 50 ms, for which an event loop would stand still."""
    try:
        return httpx.create_ssl_context()
    except OSError as error:
        message = f"SSL_CERT_FILE is no file of certificates ({error}); unset it or name another"
        raise ValueError(message) from error
