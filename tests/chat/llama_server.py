"""Serves a GGUF file with llama.cpp's own server until it is ended; runs in an environment with `xllamacpp`."""

from __future__ import annotations

import sys
import time

import xllamacpp

model, port = sys.argv[1:]
settings = xllamacpp.CommonParams()
settings.model.path = model
settings.model_alias = {"smollm2"}
settings.hostnames, settings.port = ["127.0.0.1"], int(port)
settings.n_ctx, settings.n_parallel = 8192, 2
server = xllamacpp.Server(settings)  # runs until the object is deleted
print(server.listening_address, flush=True)
while True:
    time.sleep(3600)
