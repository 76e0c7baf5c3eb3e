"""A plain FastAPI server over the same models, which load.py compares: threads of a pool, no batches, no admission."""

from __future__ import annotations

import socket
import time
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Form, UploadFile

from benchmarks.frame import arguments
from omgm import OMGM
from omgm.commands.common import add_index, add_profile
from omgm.profile import load_profile


def plain_app(omgm: OMGM) -> FastAPI:
    """Returns the server's application, without documentation, limits, metrics and checks."""
    app, times = FastAPI(), list[float]()

    @app.post("/answer")
    def answer(image: UploadFile, question: Annotated[str, Form()]) -> dict[str, Any]:
        started = time.perf_counter()
        result = omgm.ask(image.file.read(), question)
        times.append((time.perf_counter() - started) * 1000)
        return {"answer": result.answer, "entity": result.entity and result.entity.title, "ms": result.timings_ms}

    @app.get("/parts")
    def parts() -> list[float]:
        """Returns the time from decoding to the answer of each request since the last call, in ms."""
        latest = times.copy()
        times.clear()
        return latest

    return app


def main() -> None:
    parser = arguments(__doc__, out="")
    add_profile(parser)
    add_index(parser)
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    app = plain_app(OMGM.open(args.index, load_profile(args.profile, args.overrides)))
    listener = socket.create_server(("127.0.0.1", args.port), backlog=2048)
    print(f"http://127.0.0.1:{args.port}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
