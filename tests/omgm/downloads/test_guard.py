"""Which addresses URLs of others may reach, and that the address which was checked is the one connected to."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpcore
import pytest

from omgm.downloads.guard import PublicNetwork, is_public, public_addresses
from omgm.downloads.images.reasons import Failure

_PRIVATE = """
127.0.0.1 127.8.8.8 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 100.100.100.200
0.0.0.0 192.0.0.8 168.63.129.16 192.0.2.1 192.88.99.1 198.18.0.1 203.0.113.1 224.0.0.1 240.0.0.1
255.255.255.255 ::1 :: fe80::1%eth0 fec0::1 fc00::1 fd00:ec2::254 ff02::1 100::1 2001:db8::1 3fff::1
5f00::1 4000::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1 ::a9fe:a9fe ::ffff:0:127.0.0.1
64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b:1::a00:5 2002:7f00:1:: 2002:a00:5::1 2002:a9fe:a9fe::
2001:0:4136:e378:8000:63bf:f5ff:fffa 2001:4860:4860::5efe:7f00:1 2001:4860:4860:0:200:5efe:a00:5
"""
PRIVATE = _PRIVATE.split()
_PUBLIC = """
8.8.8.8 93.184.216.34 2606:4700::1111 2001:4860:4860::8888 ::ffff:8.8.8.8 64:ff9b::8.8.8.8
2002:808:808::1 ::8.8.8.8
"""
PUBLIC = _PUBLIC.split()


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_refused_in_every_form(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert is_public(address)


class Recorder(httpcore.AsyncNetworkBackend):
    """Records what is connected to, and refuses some of it."""

    def __init__(self, refusing: str = "") -> None:
        self.asked: list[str] = []
        self.refusing = refusing

    async def connect_tcp(self, host: str, *rest: Any, **named: Any) -> httpcore.AsyncNetworkStream:
        self.asked.append(host)
        if host == self.refusing:
            raise httpcore.ConnectError("refused")
        return httpcore.AsyncMockStream([])

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("no reason to sleep")


def connected(
    monkeypatch: pytest.MonkeyPatch, *answers: list[str], refusing: str = "", allow: frozenset[str] = frozenset()
) -> list[str]:
    """Returns the addresses that a client connects to if DNS gives these answers, one per query."""
    left = list(answers)

    def resolve(host: str, port: int, *rest: Any, **named: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in left.pop(0)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    network, recorder = PublicNetwork(allow), Recorder(refusing)
    monkeypatch.setattr(network, "_network", recorder)
    asyncio.run(network.connect_tcp("moves.example", 80))
    return recorder.asked


def test_a_name_is_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connected(monkeypatch, ["93.184.216.34"], ["127.0.0.1"]) == ["93.184.216.34"]


def test_one_private_address_among_others_refuses_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Failure, match=r"private_address: moves\.example:80 is 10\.0\.0\.1"):
        connected(monkeypatch, ["93.184.216.34", "10.0.0.1"])
    assert connected(monkeypatch, ["10.0.0.1"], allow=frozenset({"moves.example"})) == ["10.0.0.1"]
    assert connected(monkeypatch, ["10.0.0.1"], allow=frozenset({"moves.example:80"})) == ["10.0.0.1"]


def test_the_next_address_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connected(monkeypatch, ["8.8.8.8", "9.9.9.9"], refusing="8.8.8.8") == ["8.8.8.8", "9.9.9.9"]


def test_a_name_without_address() -> None:
    with pytest.raises(Failure, match="no_connection"):
        asyncio.run(public_addresses("nowhere.invalid", 80))


SERVER = """
import asyncio, json, socket, subprocess, threading
from omgm.downloads.images.reasons import Failure
from omgm.downloads.images.settings import DownloadSettings
from omgm.downloads.images.web import Web
from omgm.web_access import public_connect

addresses = ["64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "fec0::1", "fd00::1"]
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
for address in addresses:
    subprocess.run(["ip", "-6", "addr", "add", f"{address}/128", "dev", "lo"], check=True)
listener = socket.create_server(("::", 0), family=socket.AF_INET6)
port = listener.getsockname()[1]
with socket.create_connection((addresses[0], port)):
    listener.accept()[0].close()  # these addresses do lead here
arrived = []
def accept():
    while True:
        arrived.append(listener.accept()[1][0])
threading.Thread(target=accept, daemon=True).start()

async def main():
    outcomes = []
    async with Web(DownloadSettings(user_agent="test")) as web:
        for address in addresses:
            for ask in (web.get(f"http://[{address}]:{port}/", 100), public_connect()(address, port)):
                try:
                    await ask
                    outcomes.append("reached")
                except (Failure, ValueError) as error:
                    outcomes.append(str(error).partition(":")[0])
    print(json.dumps({"outcomes": outcomes, "arrived": arrived}))
asyncio.run(main())
"""


@pytest.mark.slow
def test_no_packet_reaches_a_private_server_behind_a_gateway() -> None:
    """In a network of its own, whose only interface has the addresses that a NAT64 gateway would translate."""
    alone = ["unshare", "--net", "--map-root-user"]
    if sys.platform != "linux" or subprocess.run([*alone, "ip", "link"], capture_output=True, check=False).returncode:
        pytest.skip("needs Linux, unshare, ip, and the right to create network namespaces")
    root = Path(__file__).parents[3]
    done = subprocess.run([*alone, sys.executable, "-c", SERVER], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == '{"outcomes": ' + str(["private_address"] * 10).replace("'", '"') + ', "arrived": []}'
