#!/usr/bin/env bash
# A day with a GPU, in three parts of at most nine minutes: benchmarks/gpu_day.sh 1, then 2, then 3.
# benchmarks/gpu_day.py says what they do and which variables they read.
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${GPU_PYTHON:-.venv/bin/python}" -m benchmarks.gpu_day "$@"
