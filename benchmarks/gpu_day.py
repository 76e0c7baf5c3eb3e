"""Runs what a machine with a GPU is borrowed for, in three parts of at most nine minutes, without a network.

    benchmarks/gpu_day.sh 1     versions, GPU tests (embedded models on both devices too), every benchmark at tiny sizes
    benchmarks/gpu_day.sh 2     the paper's models at full size, entity search over 2 million vectors
    benchmarks/gpu_day.sh 3     a training at full size, and traces of retrievals of 1 and 16

Without a GPU, parts 2 and 3 take tiny sizes, so that `make gpu-day` tries everything anywhere. Environment variables:

- GPU_PYTHON: a Python with PyTorch, Triton, transformers, NumPy, Pillow, faiss-cpu, pydantic and pytest; by default
  .venv/bin/python
- WHEELS: a folder of wheels, such as those of packages that it lacks, to install first into a temporary folder
- OUT: the folder for results (artifacts/gpu-day)
- COMMIT: the commit, where there is no `.git`
- SIZE: `tiny` or `paper`; by default `paper` if there is a GPU
- SECONDS_PER_PART: by default 530

Every step has a time limit, and a step that no longer fits into its part is skipped. OUT gets `gpu-day.jsonl` (what the
steps measured and how they ended, each line as soon as it is known), `gpu-day.log` (their output), `trace-N.json.gz`
and `kernels-N.md`. The exit status is 1 if a step failed or ran out of time.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.frame import recorder

ROOT = Path(__file__).resolve().parents[1]
GRACE = 5.0
"""Seconds between asking a step to end and killing it."""
TINY = (
    "--size tiny --batches 2 --runs 1",
    "--size tiny --few --batch 1 --rounds 1 --steps 1",
    "--size tiny --batches 2",
)
PAPER = ("--size paper", "--size full", "--size paper --batches 1,16")
"""Sizes for the models, training and the trace."""
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "PIP_NO_INDEX": "1", "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True, slots=True)
class Step:
    """A command of this Python.

    Attributes:
        name: Its name in the results.
        command: Its arguments.
        needs: Seconds without which it is not started.
        most: Seconds after which it is killed.
    """

    name: str
    command: Sequence[str]
    needs: float
    most: float


class Part:
    """One part of the day: runs steps until its time is up.

    Args:
        number: 1, 2 or 3.
        out: The folder for results.
        environment: The environment of the steps.
        seconds: Its time.

    Attributes:
        failed: Names of the steps that failed or ran out of time.
        record: Appends a result to `gpu-day.jsonl`.
    """

    def __init__(self, number: int, out: Path, environment: Mapping[str, str], seconds: float) -> None:
        self.number, self.out, self.environment, self.seconds = number, out, environment, seconds
        self.failed: list[str] = []
        self.record = recorder(out / "gpu-day.jsonl", part=number)
        self._started = time.monotonic()

    def run(self, step: Step) -> str:
        """Runs a step if there is time; says and records how it ended, and returns its output."""
        left = self.seconds - (time.monotonic() - self._started)
        if left < step.needs:
            self._say(step, "skipped", 0.0, f"needs {step.needs:g} s, but {max(left, 0):.0f} s are left")
            return ""
        self.record({"step": step.name, "status": "started"})
        started, log = time.monotonic(), self.out / "gpu-day.log"
        with log.open("ab") as file:
            file.write(f"\n--- part {self.number}: {step.name}: python {' '.join(step.command)}\n".encode())
            file.flush()
            at = file.tell()
            status = call([sys.executable, *step.command], self.environment, min(step.most, left - GRACE), file)
        with log.open("rb") as file:
            file.seek(at)
            output = file.read().decode(errors="replace")
        ended = {0: "passed", None: "out of time"}.get(status, f"failed, exit status {status}")
        if status != 0:
            self.failed.append(step.name)
        self._say(step, ended, time.monotonic() - started, *last_lines(output, 1 if status == 0 else 30))
        return output

    def _say(self, step: Step, status: str, seconds: float, *said: str) -> None:
        command = " ".join(step.command)
        self.record(
            {"step": step.name, "status": status, "seconds": round(seconds, 1), "command": command, "said": said}
        )
        print(f"part {self.number}: {step.name}: {status} ({seconds:.1f} s)", *said, sep="\n    ", flush=True)


def call(command: Sequence[str], environment: Mapping[str, str], seconds: float, output: Any) -> int | None:
    """Runs a command with a time limit, and kills it with its children; returns its exit status, `None` if killed."""
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=GRACE)
            return None
        finally:  # also when this process is interrupted; and no child outlives its step
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def last_lines(output: str, count: int) -> list[str]:
    """Returns the last lines of an output that are not empty, without what progress bars have overwritten."""
    lines = [line.rsplit("\r", 1)[-1].rstrip() for line in output.replace("\r\n", "\n").split("\n")]
    return [line for line in lines if line][-count:]


def steps(number: int, out: Path, work: Path, card: bool, size: str) -> list[Step]:
    """Returns the steps of a part.

    Args:
        number: 1, 2 or 3.
        out: The folder for results.
        work: A temporary folder.
        card: Whether there is a GPU.
        size: "paper" or "tiny", for parts 2 and 3.
    """
    lines = ("--lines", str(out / "gpu-day.jsonl"))
    if number == 1:
        whole = [Step("tests", ("-m", "pytest", "-m", "gpu", "-W", "default", "-vv", "tests/gpu"), 20, 300)]
        if size == "paper":  # else parts 2 and 3 are just these
            whole += [one for part in (2, 3) for one in steps(part, out, work, card, "tiny")]
        return whole
    models, training, trace = (command.split() for command in (TINY if size == "tiny" else PAPER))
    if number == 2:
        return [Step("models", ("-m", "benchmarks.gpu", *models, "--out", f"{work}/models", *lines), 15, 480)]
    folders = ("--folder", f"{work}/training-{size}", "--out", f"{work}/train.json")
    return [
        Step("training", ("-m", "benchmarks.train", *training, *folders, *lines), 15, 300),
        Step("trace", ("-m", "benchmarks.gpu", "--trace", *trace, "--out", str(out), *lines), 15, 200),
    ]


def install(wheels: Path, target: Path) -> None:
    """Installs every package of a folder of wheels that fits this Python, without a network and without others."""
    names = sorted({re.split(r"-(?=\d)", wheel.name, maxsplit=1)[0] for wheel in wheels.glob("*.whl")})
    if not names:
        raise SystemExit(f"WHEELS={wheels}: has no .whl file")
    options = ("--quiet", "--no-index", "--no-deps", "--find-links", str(wheels), "--target", str(target))
    if subprocess.run([sys.executable, "-m", "pip", "install", *options, *names], check=False).returncode:
        raise SystemExit(f"WHEELS={wheels}: cannot be installed with {sys.executable}; see above")


def main(argv: Sequence[str]) -> int:
    """Runs the parts that are named and returns the exit status."""
    if not argv or not set(argv) <= {"1", "2", "3"}:
        raise SystemExit("name the parts to run: benchmarks/gpu_day.sh 1, 2 or 3")
    size = os.environ.get("SIZE", "")
    if size not in ("", "tiny", "paper"):
        raise SystemExit(f"SIZE: must be tiny or paper, got {size!r}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a step does not outlive this process
    out = Path(os.environ.get("OUT") or ROOT / "artifacts/gpu-day").resolve()
    out.mkdir(parents=True, exist_ok=True)
    seconds = float(os.environ.get("SECONDS_PER_PART", "530"))
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        environment = {**os.environ, **OFFLINE}
        if wheels := os.environ.get("WHEELS"):
            install(Path(wheels).resolve(), work / "packages")
            paths = [str(work / "packages"), *filter(None, [os.environ.get("PYTHONPATH")])]
            environment["PYTHONPATH"] = os.pathsep.join(paths)
        facts: dict[str, Any] = {}
        for number in map(int, argv):
            part = Part(number, out, environment, seconds)
            if not facts:
                told = part.run(Step("versions", ("-m", "benchmarks.frame"), 5, 60))
                if part.failed:
                    return 1
                facts = json.loads(last_lines(told, 1)[0])
            part.record({"machine": facts})
            card = facts["capability"] is not None
            if not card:  # threads that wait for each other spin, and slow each other down on a busy machine
                environment.setdefault("OMP_NUM_THREADS", "1")
            for step in steps(number, out, work, card, size or ("paper" if card else "tiny")):
                part.run(step)
            failed = failed or bool(part.failed)
    print(f"results: {out}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
