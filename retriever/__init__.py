"""Online retrieval: the three steps of OMGM, their models and kernels. Start reading at `retriever.pipeline`."""

from __future__ import annotations

import os

# ONNX Runtime and Ray report their use to their makers unless these are set before they are loaded; every part of
# OMGM that loads them loads this package first. Whoever wants the reports sets the variables.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
