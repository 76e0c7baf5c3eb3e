"""Checks of a service's address before it starts."""

from __future__ import annotations

import socket

import pytest

from omgm.__main__ import main
from omgm.addresses import check_address
from tests.fakes.listening import free_port


def test_a_free_address() -> None:
    for host in ("127.0.0.1", "localhost", "0.0.0.0"):
        check_address(host, free_port())


@pytest.mark.parametrize("command", ["serve", "mcp --http", "demo"])
def test_an_address_in_use_is_reported_before_anything_is_read_or_built(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subprocess.run", lambda *_: pytest.fail("built"))
    index = [] if command == "demo" else ["--index", "."]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main([*command.split(), *index, "--port", str(port)]) == 2
    advice = "something else listens there; stop it or choose another --port"
    assert capsys.readouterr().err == f"omgm: error: cannot listen at 127.0.0.1, port {port}: {advice}\n"


@pytest.mark.parametrize(
    ("host", "why"),
    [("192.0.2.1", "choose another host or --port"), ("no.such.host.invalid", "choose another host")],
)
def test_an_address_that_is_not_of_this_machine(host: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"cannot listen at {host}, port 8000: .*; {why}$"):
        check_address(host, 8000)
