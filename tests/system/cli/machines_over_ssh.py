"""Machines that `phalanx up` reaches through a stand-in for ssh: each has a home and a runtime
directory of its own, and all are this machine (tests/stand_in_ssh.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.ports import free_ports
from tests.warm import popen_in_use

from phalanx.runtime.daemons.daemon_files import Announcement, daemons

PATIENCE_S = 170
"""The most seconds that one command may take. Machines that run tests are slow at times."""
STAND_IN = Path(__file__).parents[2] / "stand_in_ssh.py"
SITE = Path(pytest.__file__).parents[1]
"""The directory of the packages that Phalanx needs."""
SOURCE = Path(__file__).parents[3] / "src"
FILE = """\
head = "alpha"

[install]
{install}
python = "{python}"

[start]
port = {port}
num_cpus = 1
object_store_memory = 80000000

[machines.alpha]
host = "alpha"
address = "127.0.0.1"
labels = {{ first = "yes" }}

[machines.beta]
host = "beta"
address = "127.0.0.1"
"""
HERE = f'venv = "{sys.prefix}"'
"""The line of the cluster file that says that the machines already have the software."""


class Lab:
    """Machines that the stand-in reaches, and the file that describes them."""

    def __init__(self, install: str) -> None:
        self.python = sys.executable
        self.directory = Path(tempfile.mkdtemp(prefix="phu-", dir="/tmp"))
        self.hosts = self.directory / "h"
        programs = self.directory / "bin"
        programs.mkdir()
        for name in ("ssh", "scp"):
            (programs / name).symlink_to(STAND_IN)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("PHALANX_")}
        self.env |= {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "STAND_IN_HOSTS": str(self.hosts),
            "HOME": str(self.directory / "home"),
            "XDG_RUNTIME_DIR": str(self.directory / "home"),
        }
        (self.directory / "home").mkdir(mode=0o700)
        self.hosts.mkdir()
        for name in ("alpha", "beta"):
            self.boot(name)
        self.file = self.directory / "cluster.toml"
        self.port = free_ports(1)[0]
        self.write(install)

    def boot(self, name: str) -> None:
        """Make a machine reachable."""
        (self.hosts / name / "run" / "phalanx").mkdir(mode=0o700, parents=True)
        for path in (self.hosts / name, self.hosts / name / "run"):
            path.chmod(0o700)

    def write(self, install: str, more: str = "") -> None:
        text = FILE.format(install=install, python=self.python, port=self.port)
        self.file.write_text(text + more)

    def phalanx(self, *words: str, code: int = 0, **variables: str) -> str:
        """Run a command of the administrator, and return everything that it prints."""
        return self._run(words, self.env | variables, code)

    def on(self, name: str, *words: str) -> str:
        """Run a command of a user on a machine."""
        home = self.hosts / name
        env = {**self.env, "HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run")}
        return self._run(words, env, 0)

    def _run(self, words: tuple[str, ...], env: dict[str, str], code: int) -> str:
        with popen_in_use()(
            [sys.executable, "-m", "phalanx", *words],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                said, _ = process.communicate(timeout=PATIENCE_S)
            except BaseException:
                process.kill()
                raise
        assert process.returncode == code, (words, said)
        return str(said)

    def daemons(self, name: str) -> dict[str, Announcement]:
        """Return the living daemons of a machine, by kind."""
        return {one.kind: one for _, one in daemons(str(self.hosts / name / "run" / "phalanx"))}

    def job(self, name: str) -> dict[str, Any]:
        rows = json.loads(self.on("alpha", "jobs", "--json"))
        return next(row for row in rows if row["name"] == name)

    def close(self) -> None:
        for home in self.hosts.iterdir():
            if home.is_dir():
                self.on(home.name, "stop", "--force", "--forget", "--yes")
        shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def lab_with(install: str) -> Iterator[Lab]:
    lab = Lab(install)
    try:
        yield lab
    finally:
        lab.close()


def wheel(directory: Path, build: str) -> Path:
    """Build a wheel that uses Phalanx from this checkout. The bytes differ for each `build`."""
    path = directory / build / "phalanx-0.2.0-py3-none-any.whl"
    path.parent.mkdir()
    info = "phalanx-0.2.0.dist-info"
    files = {
        "here.pth": f"{SOURCE}\n{SITE}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: phalanx\nVersion: 0.2.0\n\n{build}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as file:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            file.writestr(name, text)
    return path
