"""Carries out a stage of docker/Dockerfile in a clean Debian root, where there is no Docker.

Debian's own Python stands in for that of the image `python:…-slim-…`, whose Debian release it is. The service then runs
as in `docker run --read-only --tmpfs /tmp --network none`, with the user that the file names, until its health check
passes and one question is answered. It needs root, debootstrap, and util-linux.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path
from typing import TextIO

from tests.ways_in.dockerfile import Instruction, context, instructions

VENV = "/opt/python"
READY = 900.0
"""Seconds within which the health check must pass."""
MACHINE = [Path(name) for name in ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs")]
"""What the root sees of this machine while it builds, so that the same networks and certificates hold."""
QUESTION = """
import base64, json, sys
from pathlib import Path
from urllib.request import Request, urlopen
image = base64.b64encode(next(Path("artifacts/demo/queries").glob("jp_*.jpg")).read_bytes()).decode()
asked = {"image": f"data:image/jpeg;base64,{image}", "question": "What is the capital of this country?"}
request = Request("http://127.0.0.1:8000/answer", json.dumps(asked).encode(), {"Content-Type": "application/json"})
print(json.load(urlopen(request, timeout=60))["answer"])
"""


class Image:
    """A root folder in which the instructions of a Dockerfile are carried out.

    Args:
        root: The folder, with a Debian in it.
        source: The folder from which COPY copies.
        arguments: Values of ARG other than the file's, by name.
        log: Where the output of the commands goes.
        pip_log: Where pip's log goes.
    """

    def __init__(self, root: Path, source: Path, arguments: dict[str, str], log: TextIO, pip_log: Path) -> None:
        self.root, self.source, self.arguments, self.log, self.pip_log = root, source, arguments, log, pip_log
        self.environment = {"PATH": f"{VENV}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        passed = re.compile(r"(PIP_(CERT|INDEX_URL|DEFAULT_TIMEOUT)|(https?|no)_proxy|SSL_CERT_FILE)", re.IGNORECASE)
        self.outside = {name: value for name, value in os.environ.items() if passed.fullmatch(name)}
        self.workdir, self.user, self.command, self.check = "/", "", [""], [""]

    def carry_out(self, step: Instruction) -> None:
        """Carries out one instruction.

        Raises:
            ValueError: It is one that this class does not know.
        """
        if step.name in ("FROM", "EXPOSE"):
            return
        if step.name == "ENV":
            self.environment |= dict(pair.split("=", 1) for pair in shlex.split(step.rest))
        elif step.name == "ARG":
            name, _, value = step.rest.partition("=")
            self.outside[name] = self.arguments.get(name, value)
        elif step.name == "WORKDIR":
            self.workdir = step.rest
            self.inside(step.rest).mkdir(parents=True, exist_ok=True)
        elif step.name == "USER":
            self.user = step.rest
            self.environment["HOME"] = self.home()
        elif step.name == "COPY" and step.rest == ". .":
            self.copy(next(option.partition("=")[2] for option in step.options if option.startswith("chown=")))
        elif step.name == "RUN":
            self.run(["sh", "-c", step.rest])
        elif step.name in ("CMD", "HEALTHCHECK"):
            setattr(self, {"CMD": "command", "HEALTHCHECK": "check"}[step.name], json.loads(step.rest))
        else:
            raise ValueError(f"docker/Dockerfile: {step.name} {step.rest}: tests/ways_in/debian.py cannot do this yet")

    def inside(self, path: str) -> Path:
        """Returns where a path of the image is on this machine."""
        return self.root / path.lstrip("/")

    def home(self) -> str:
        """Returns the home of the user, by the image's table of users."""
        rows = [line.split(":") for line in self.inside("/etc/passwd").read_text().splitlines()]
        return next(row[5] for row in rows if self.user in (row[0], row[2]))

    def copy(self, owner: str) -> None:
        """Copies the tracked files that Dockerfile.dockerignore leaves."""
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=self.source, capture_output=True, text=True, check=True)
        ignore = (self.source / "docker" / "Dockerfile.dockerignore").read_text(encoding="utf-8")
        for name in context(filter(None, listed.stdout.split("\0")), ignore):
            target = self.inside(self.workdir) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.source / name, target)
        self.run(["chown", "-R", owner, self.workdir])

    def run(self, command: list[str]) -> None:
        """Runs a command of the build; pip's log is kept.

        Raises:
            subprocess.CalledProcessError: It failed.
        """
        environment = self.environment | self.outside
        if not self.user:
            environment["PIP_LOG"] = "/var/log/pip.log"
        entered = self.entered(command, read_only=False)
        subprocess.run(entered, env=environment, stdout=self.log, stderr=self.log, check=True)
        if (log := self.inside("/var/log/pip.log")).is_file():
            shutil.copyfile(log, self.pip_log)

    def entered(self, command: list[str], read_only: bool) -> list[str]:
        """Returns a command line that runs a command in the root; `read_only` as a container without a network."""
        root = shlex.quote(str(self.root))
        lines = ["set -e", f"mount --bind {root} {root}"]
        for path in MACHINE if not read_only else []:
            if path.exists():
                inside = self.inside(str(path))
                inside.mkdir(parents=True, exist_ok=True) if path.is_dir() else inside.touch()
                lines.append(f"mount --bind {path} {shlex.quote(str(inside))}")
        lines += [f"mount -t proc proc {root}/proc", f"mount --rbind /dev {root}/dev"]
        if read_only:
            lines += [f"mount -o remount,bind,ro {root}", f"mount -t tmpfs tmpfs {root}/tmp", "ip link set lo up"]
        inner = f"cd {self.workdir} && exec {shlex.join([*self.as_user(), *command])}"
        lines.append(f"exec chroot {root} /bin/sh -c {shlex.quote(inner)}")
        return ["unshare", "--mount", *(["--net"] if read_only else []), "sh", "-c", "\n".join(lines)]

    def as_user(self) -> list[str]:
        """Returns the start of a command line that drops root's rights where the image has a user."""
        rights = ["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        return ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", *rights] if self.user else []

    def serve(self) -> str:
        """Runs the image's command until it is healthy; returns the answer to one question.

        Raises:
            OSError: It ended, or did not become healthy in time.
        """
        entered = self.entered(self.command, read_only=True)
        service = subprocess.Popen(entered, env=self.environment, stdout=self.log, stderr=self.log)
        entering = ["nsenter", f"--target={service.pid}", "--mount", "--net", "--root", "--wd", *self.as_user()]
        try:
            deadline = time.monotonic() + READY
            while subprocess.run([*entering, *self.check], env=self.environment, capture_output=True).returncode:
                if service.poll() is not None or time.monotonic() > deadline:
                    raise OSError("the service ended before it was healthy, or was not healthy in time")
                time.sleep(1)
            asked = [*entering, "python", "-c", QUESTION]
            done = subprocess.run(asked, env=self.environment, capture_output=True, text=True, check=True)
            return done.stdout.strip()
        finally:
            service.terminate()
            service.wait(60)


def prepare(root: Path, base: str, log: TextIO) -> None:
    """Fills a folder with the Debian of a base image such as `python:3.12-slim-bookworm`, and its Python.

    Raises:
        OSError: This is not root, or a tool is missing.
    """
    tools = ("debootstrap", "unshare", "nsenter", "setpriv", "ip")
    missing = [name for name in tools if not shutil.which(name)]
    if missing or os.geteuid():
        raise OSError(f"needs root and {', '.join(tools)}" + (f"; missing: {', '.join(missing)}" if missing else ""))
    packages = "--include=python3,python3-venv,ca-certificates"
    command = ["debootstrap", "--variant=minbase", packages, base.rpartition("-")[2], str(root)]
    subprocess.run(command, check=True, stdout=log, stderr=log)
    subprocess.run(["chroot", root, "/usr/bin/python3", "-m", "venv", VENV], check=True, stdout=log, stderr=log)


def build(image: Image, stage: str) -> float:
    """Builds a stage of docker/Dockerfile; returns the seconds it took without the base image."""
    steps = instructions((image.source / "docker" / "Dockerfile").read_text(encoding="utf-8"), stage)
    prepare(image.root, steps[0].rest.partition(" ")[0], image.log)
    start = time.monotonic()
    for step in steps:
        print(f"--- {step.name} {step.rest}", file=image.log, flush=True)
        image.carry_out(step)
    return time.monotonic() - start
