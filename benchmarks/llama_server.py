"""Serves a GGUF file with llama.cpp's own server, for `benchmarks/small_model.py`; needs the package `xllamacpp`."""

from __future__ import annotations

import argparse
import time

import xllamacpp


def main() -> None:
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gguf")
    parser.add_argument("--port", type=int, default=8950)
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    settings = xllamacpp.CommonParams()
    settings.model.path = options.gguf
    settings.model_alias = {"small"}
    settings.hostnames, settings.port = ["127.0.0.1"], options.port
    settings.n_ctx, settings.n_parallel = options.context, 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = options.threads
    settings.use_jinja = True  # the template in the file
    server = xllamacpp.Server(settings)  # runs until the object is deleted
    print(server.listening_address, flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
