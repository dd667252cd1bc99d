"""The command line as a user without other settings runs it: real processes, with a separate home
and runtime directory. All of it is ended with the test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any, TypeVar

import pytest
from tests.warm import popen_in_use

from phalanx.cli.cluster_view import as_data
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.jobs import ListJobs
from phalanx.protocol.requests.request import Request
from phalanx.runtime.daemons.daemon_files import Announcement, daemons
from phalanx.runtime.daemons.visitor import ask_daemon

R = TypeVar("R")

COMMAND = "from phalanx.cli import main; main()"
PATIENCE_S = 120
"""The most seconds that one command may take. Machines that run tests are slow at times."""


class Machine:
    """A machine with one user: a home and a runtime directory."""

    def __init__(self) -> None:
        self.directory = tempfile.mkdtemp(prefix="phc-", dir="/tmp")
        self.address = ""
        """Of its head, where one was started for all tests."""
        self.home = os.path.join(self.directory, "home")
        runtime = os.path.join(self.directory, "run")
        self.root = os.path.join(runtime, "phalanx")
        for path in (self.home, runtime, self.root):
            os.mkdir(path, 0o700)
        ours = ("PHALANX_ADDRESS", "PHALANX_TOKEN_FILE", "TMPDIR")
        self.env = {k: v for k, v in os.environ.items() if k not in ours}
        self.env |= {"HOME": self.home, "XDG_RUNTIME_DIR": runtime, "NO_COLOR": "1"}
        self.env["COLUMNS"] = "200"

    def phalanx(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        return self.python(COMMAND, *arguments, **env)

    def python(self, code: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        with self.begin(code, *arguments, stdout=subprocess.PIPE, **env) as process:
            try:
                out, err = process.communicate(timeout=PATIENCE_S)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def without_reader(
        self, *arguments: str, code: str = COMMAND
    ) -> subprocess.CompletedProcess[str]:
        """Run one command whose output goes to a pipe that nobody reads any more."""
        reader, writer = os.pipe()
        os.close(reader)
        with (
            os.fdopen(writer, "w") as pipe,
            self.begin(code, *arguments, stdout=pipe.fileno()) as process,
        ):
            _, err = process.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(process.args, process.returncode, "", err)

    def begin(
        self, code: str, *arguments: str, stdout: int = subprocess.PIPE, **env: str
    ) -> subprocess.Popen[str]:
        """Start a program."""
        return popen_in_use()(
            [sys.executable, "-c", code, *arguments],
            env=self.env | env,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )

    def done(self, *arguments: str, **env: str) -> str:
        """Return the output of a command that must succeed."""
        ended = self.phalanx(*arguments, **env)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def status(self) -> dict[str, Any]:
        """Return what `status --json` prints, without starting a process for it."""
        return as_data(self.ask(GetStatus()), "")

    def jobs(self) -> dict[str, dict[str, Any]]:
        """Return jobs by name, as `jobs --json` lists them, without starting a process for it."""
        return {row["name"]: row.as_dict() for row in self.ask(ListJobs())}

    def ask(self, request: Request[R]) -> R:
        (head,) = [(s, one) for s, one in daemons(self.root) if one.kind == "head"]
        return ask_daemon(*head, request, PATIENCE_S)

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Return the nodes by the value of their label `name`."""
        return {row["labels"].get("name", ""): row for row in self.status()["nodes"]}

    def start_head(self, *arguments: str) -> str:
        """Start a head with a small node; return the address."""
        small = ("--port", "0", "--num-cpus", "1", "--object-store-memory", "80000000")
        self.done("start", "--head", *small, "--labels", "name=first", *arguments)
        return str(self.status()["address"])

    def join(self, address: str, name: str, *arguments: str) -> str:
        """Start a small node of this name; return its id."""
        small = ("--num-cpus", "1", "--object-store-memory", "80000000")
        self.done("start", "--address", address, *small, "--labels", f"name={name}", *arguments)
        return str(self.nodes()[name]["node_id"])

    def daemons(self) -> dict[str, Announcement]:
        """Return the announcements of the living daemons: the head's by "head", those of nodes by
        their ids.
        """
        return {one.node_id or one.kind: one for _, one in daemons(self.root)}

    def end(self) -> None:
        """End all daemons and programs, and delete the directories."""
        self.phalanx("stop", "--force", "--forget", "--yes")
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture
def machine():
    machine = Machine()
    yield machine
    machine.end()


@pytest.fixture(scope="module")
def running():
    """Yield a machine with a running head, shared by tests that leave it unchanged."""
    machine = Machine()
    try:
        machine.address = machine.start_head()
        yield machine
    finally:
        machine.end()
