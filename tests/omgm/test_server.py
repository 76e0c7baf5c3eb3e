"""A server announces itself only once it listens, and never if it cannot start."""

from __future__ import annotations

import gc
import signal
import socket
from functools import partial

import pytest
import uvicorn
from starlette.applications import Starlette

from omgm.server import run_server
from tests.fakes.listening import free_port


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])  # as Ctrl-C and `kill` do
@pytest.mark.parametrize("before", [signal.default_int_handler, signal.SIG_IGN])  # what scripts start ignores SIGINT
def test_whoever_reads_the_announcement_can_connect(
    number: signal.Signals, before: signal.Handlers, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(partial(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, before)))
    config = uvicorn.Config(Starlette(), host="127.0.0.1", port=free_port(), log_level="error")
    connected, frozen = list[bool](), list[int]()
    of_startup = [[number] for number in range(10_000)]
    before_startup = gc.get_freeze_count()

    def announce() -> None:
        frozen.append(gc.get_freeze_count())
        with socket.create_connection((config.host, config.port), timeout=10):
            connected.append(True)
        signal.raise_signal(number)

    run_server(config, announce)
    assert connected == [True]
    assert frozen[0] - before_startup >= len(of_startup)  # the garbage collector does not scan them again


def test_an_address_in_use_ends_the_command_unannounced() -> None:
    announced = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = uvicorn.Config(Starlette(), host="127.0.0.1", port=taken.getsockname()[1], log_level="critical")
        with pytest.raises(SystemExit) as ended:
            run_server(config, lambda: announced.append(True))
    assert ended.value.code and not announced
