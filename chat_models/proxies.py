"""HTTP clients that use the proxies of the environment, except for addresses on this machine."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

import httpx

from chat_models.certificates import certificates

_LOCAL = ("localhost", "0.0.0.0", "::")


def http_client(url: str | httpx.URL, **settings: Any) -> httpx.AsyncClient:
    """Returns a client for one server, with the proxy that the environment names for it; see `proxy_for`."""
    return httpx.AsyncClient(trust_env=False, proxy=proxy_for(str(url)), verify=certificates(), **settings)


def sync_http_client(url: str | httpx.URL, **settings: Any) -> httpx.Client:
    """Returns a blocking client for one server; see `http_client`."""
    return httpx.Client(trust_env=False, proxy=proxy_for(str(url)), verify=certificates(), **settings)


def proxy_for(url: str) -> str | None:
    """Returns the proxy for a URL as the environment names it, `None` to connect directly.

    Addresses on loopback are always reached directly: a proxy on another machine could only reach its own.

    Raises:
        ValueError: The variable that names the proxy is not the URL of one that can be used.
    """
    name = proxy_variable(url)
    if name is None:
        return None
    value = os.environ[name].strip()
    proxy = value if "://" in value else f"http://{value}"
    scheme = proxy.partition("://")[0].lower()
    if scheme in ("socks", "socks4", "socks4a"):  # curl's and GNOME's names; httpx knows only SOCKS 5
        if scheme != "socks":
            raise ValueError(f"{name}={_shown(value)}: SOCKS 4 is not supported; use socks5:// or http://, or unset it")
        proxy = f"socks5{proxy[len(scheme) :]}"
    try:
        known = urlsplit(proxy).hostname and httpx.URL(proxy).scheme in ("http", "https", "socks5", "socks5h")
    except (ValueError, httpx.InvalidURL):
        known = False
    if not known:
        raise ValueError(f"{name}={_shown(value)} is not the URL of a proxy, such as http://proxy.example:3128")
    if proxy.lower().startswith("socks5") and find_spec("socksio") is None:
        raise ValueError(
            f"{name}={_shown(value)}: a SOCKS proxy needs `pip install socksio`; or unset {name}, or add "
            f"{urlsplit(url).hostname} to NO_PROXY"
        )
    return proxy


def proxy_variable(url: str) -> str | None:
    """Returns the name of the environment variable whose proxy is used for a URL, or `None` for none."""
    if is_direct(url):
        return None
    for kind in (urlsplit(url).scheme, "all"):
        for name in (f"{kind}_proxy", f"{kind.upper()}_PROXY"):
            if name == "HTTP_PROXY" and "REQUEST_METHOD" in os.environ:
                continue  # in a CGI script, it is a header of the request
            if os.environ.get(name, "").strip():
                return name
    return None


def is_direct(url: str) -> bool:
    """Returns whether a URL is reached without a proxy: it is on loopback, or an exception in NO_PROXY."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    return _is_local(host) or _is_excepted(host, parts.port or (443 if parts.scheme == "https" else 80))


def through_proxy(url: str) -> str:
    """Returns how a message says that a failed request went through a proxy, or ""."""
    name = proxy_variable(url)
    return "" if name is None else f" (through the proxy {_shown(os.environ[name])} of {name})"


def _is_local(host: str) -> bool:
    if host in _LOCAL or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _is_excepted(host: str, port: int) -> bool:
    """Returns whether NO_PROXY has a host: its name, a domain that it is in, its address or a network."""
    for entry in re.split(r"[\s,]+", getproxies_environment().get("no", "")):
        name = entry.lower().removeprefix("http://").removeprefix("https://").rstrip(".")
        if name == "*":
            return True
        try:
            if ip_address(host.partition("%")[0]) in ip_network(name.strip("[]"), strict=False):
                return True
            continue
        except ValueError:  # one of them is a name, or has a port
            pass
        bare, colon, number = name.rpartition(":")
        if colon and number.isdecimal() and ":" not in bare.strip("[]").replace("::", ""):
            if int(number) != port:
                continue
            name = bare
        name = name.strip("[]").removeprefix("*").removeprefix(".")
        if name and (host == name or host.endswith(f".{name}")):
            return True
    return False


def _shown(value: str) -> str:
    """Returns a proxy's URL without its password."""
    user, at, host = value.rpartition("@")
    scheme, separator, _ = user.partition("://")
    return f"{scheme + separator if separator else ''}…@{host}" if at else value
