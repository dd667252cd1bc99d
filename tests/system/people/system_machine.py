"""A machine whose jobs run as their submitters, with accounts that only its processes know."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from tests.system.cli.conftest import COMMAND, PATIENCE_S

from phalanx.runtime.launch import program
from phalanx.runtime.launch.program import trusted_end
from phalanx.runtime.os.command_groups import writable_group

OWN_MACHINE = os.path.join(os.path.dirname(__file__), "own_machine.py")
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
NODE_USER = "phalanx-node"
_FIRST = 100_000 + os.getpid() % 100_000 * 4
"""The first of the user ids of these accounts. No other process of these tests uses the same ids at
the same time.
"""
_TAKEN = {one.pw_uid for one in pwd.getpwall()}
_ROBOT = next(uid for uid in range(300 + os.getpid() % 600, 1000) if uid not in _TAKEN)
"""The user id of `robot`. It is below 1000, like those of the machine's own system accounts. Each
test process uses another id, because tests look for processes of the account.
"""
ACCOUNTS = {NODE_USER: _FIRST, "ana": _FIRST + 1, "bo": _FIRST + 2, "robot": _ROBOT}
NODE = "m1"
RUN, STATE, KEY = "/run/phalanx-launch", "/run/phalanx-launch-state", "/run/launch.pub"


def need_root() -> None:
    """Skip a test unless root runs it, from files that no other account can change. A checkout
    below /tmp is skipped, because others can change that directory.
    """
    if os.getuid() != 0:
        pytest.skip("only root can start phalanx-launch, and make a machine of its own")
    for path in (sys.executable, sys.base_prefix, str(ROOT)):
        try:
            trusted_end(path)
        except PermissionError as error:
            pytest.skip(f"phalanx-launch refuses the files of these tests: {error}")


class SystemMachine:
    """A machine with the accounts, root's phalanx-launch, and a head and a node that run as a
    separate account.
    """

    def __init__(self) -> None:
        self.directory = tempfile.mkdtemp(prefix="phs-", dir="/tmp")
        os.chmod(self.directory, 0o755)
        for name in ("passwd", "group"):
            shutil.copy(f"/etc/{name}", os.path.join(self.directory, name))
            with open(os.path.join(self.directory, name), "a") as file:
                for account, uid in ACCOUNTS.items():
                    rest = f":{uid}::{self.home(account)}:/bin/sh" if name == "passwd" else ":"
                    file.write(f"{account}:x:{uid}{rest}\n")
        needed = [sys.prefix, sys.base_prefix, ROOT]
        self._holder = subprocess.Popen(
            [sys.executable, OWN_MACHINE, "hold", self.directory, *needed],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "ready\n"
        os.mkdir(os.path.join(self.directory, "home"), 0o755)
        for account, uid in ACCOUNTS.items():
            for path in (self.home(account), self.runtime(account)):
                os.mkdir(path, 0o700)
                os.chown(path, uid, uid)
        self.shared = os.path.join(self.directory, "shared")
        os.mkdir(self.shared, 0o755)
        os.chown(self.shared, ACCOUNTS[NODE_USER], -1)
        self.launch: subprocess.Popen[str] | None = None
        self.prefix: list[str] = []
        """The words with which every program begins, such as those that enter a network."""

    def home(self, account: str) -> str:
        """The home directory of an account."""
        return os.path.join(self.directory, "home", account)

    def runtime(self, account: str) -> str:
        """The runtime directory of an account."""
        return os.path.join(self.directory, f"run-{account}")

    def begin(self, account: str, *words: str, **env: str) -> subprocess.Popen[str]:
        """Start a program as an account on the machine."""
        home = self.home(account) if account in ACCOUNTS else "/root"
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "USER": "victim",
            "PHALANX_SHARED_DIR": self.shared,
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }
        if account in ACCOUNTS:
            variables["XDG_RUNTIME_DIR"] = self.runtime(account)
        return subprocess.Popen(
            [
                *self.prefix,
                sys.executable,
                OWN_MACHINE,
                "within",
                str(self._holder.pid),
                account,
                *words,
            ],
            env=variables | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, account: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a program of an account to its end."""
        with self.begin(account, *words, **env) as process:
            try:
                out, err = process.communicate(timeout=PATIENCE_S)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def python(self, account: str, code: str, *words: str, **env: str) -> str:
        """Run a program in Python, which must succeed; return its output."""
        ended = self.run(account, sys.executable, "-c", code, *words, **env)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def phalanx(self, account: str, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run(account, sys.executable, "-c", COMMAND, *words)

    def said(self, account: str, *words: str) -> str:
        """Run a command as an account, which must succeed; return its output."""
        return self.python(account, COMMAND, *words)

    def job(self, name: str) -> dict[str, Any]:
        """The row of a job."""
        rows = json.loads(self.said(NODE_USER, "jobs", "--all", "--json"))
        found: dict[str, Any] = next(row for row in rows if row["name"] == name)
        return found

    def head_address(self) -> str:
        """The address of the head."""
        return str(json.loads(self.said(NODE_USER, "status", "--json"))["address"])

    def start(self, *options: str) -> None:
        """Start the head with a node, and root's program with the head's key."""
        self.said(
            NODE_USER, "start", "--head", "--port", "0", "--shared", "--system",
            "--node-name", NODE, "--num-cpus", "4", "--num-gpus", "0", *options,
        )  # fmt: skip
        self.trust_head()

    def trust_head(self) -> None:
        """Start root's program with the head's key, and let accounts submit."""
        public = os.path.join(self.home(NODE_USER), ".phalanx", "launch", "launch.pub")
        done = self.run("root", "/bin/cp", public, KEY)
        assert done.returncode == 0, done.stderr
        self.start_launch()
        self.said(NODE_USER, "queue", "update", "default", "--submit", "ana,bo,robot")

    def start_launch(self, **options: str) -> None:
        """Start root's program, and wait until it serves."""
        chosen = {"user": NODE_USER, "key": KEY, "python": sys.executable, "node": NODE}
        chosen |= {"run": RUN, "state": STATE} | options
        words = [word for name, value in chosen.items() for word in (f"--{name}", value)]
        started = self.begin("root", sys.executable, "-I", "-S", program.__file__, *words)
        assert started.stderr is not None
        line = started.stderr.readline()
        if "serves" not in line:
            line += started.stderr.read()
            started.communicate()
            raise AssertionError(line)
        self.launch = started

    def end(self) -> None:
        """End all that was started."""
        with contextlib.suppress(AssertionError):
            self.said(NODE_USER, "stop", "--force", "--forget", "--yes")
        if self.launch is not None:
            kill_launch(self.launch)
        self._holder.communicate()
        for uid in range(_FIRST, _FIRST + 3):
            for pid in processes_of(uid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for uid in ACCOUNTS.values():
            remove_groups(uid)
        shutil.rmtree(self.directory, ignore_errors=True)


def remove_groups(uid: int) -> None:
    """Remove the control groups of an account. They are left over if root's program is killed."""
    for above, names, _ in os.walk(f"{writable_group()}/account-{uid}", topdown=False):
        for path in (*(os.path.join(above, name) for name in names), above):
            with contextlib.suppress(OSError):  # a process that was killed just now is in it
                os.rmdir(path)


Machine = TypeVar("Machine", bound=SystemMachine)


def started(make: Callable[[], Machine]) -> Iterator[Machine]:
    """Yield a machine on which the head, a node and root's program run. A fixture returns this."""
    need_root()
    made = make()
    try:
        made.start()
        yield made
    finally:
        made.end()


def kill_launch(launch: subprocess.Popen[str]) -> None:
    """Kill root's program. The guards of the processes that it has started go on, and keep its
    output open.
    """
    launch.kill()
    launch.wait()
    for end in (launch.stdout, launch.stderr):
        assert end is not None
        end.close()


def processes_of(uid: int) -> list[int]:
    """Return the pids of an account's processes."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            if os.stat(f"/proc/{int(name)}").st_uid == uid:
                found.append(int(name))
    return found
