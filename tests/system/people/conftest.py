"""A shared cluster that root runs, and two real accounts of the machine that send requests to its
head.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.cli.conftest import COMMAND, PATIENCE_S, Machine

AS_USER = str(Path(__file__).with_name("as_user.py"))
ACCOUNTS = ("daemon", "bin", "mail", "news")
"""Accounts that machines have, and that own nothing in these tests."""


def accounts() -> list[str]:
    """Return the accounts of this machine as which tests may act."""
    return [one.pw_name for one in pwd.getpwall() if one.pw_name in ACCOUNTS and one.pw_uid]


class SharedMachine(Machine):
    """A machine on which several people work."""

    def __init__(self) -> None:
        super().__init__()
        self.env["PHALANX_SHARED_DIR"] = self.shared = os.path.join(self.directory, "shared")
        os.chmod(self.directory, 0o755)

    def as_user(
        self, account: str, *arguments: str, code: str = COMMAND, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one command as another account. The environment variables of the command name a third
        user.
        """
        home = os.path.join(self.directory, account)
        if not os.path.isdir(home):
            os.mkdir(home, 0o700)
            os.chown(home, pwd.getpwnam(account).pw_uid, -1)
        theirs = {k: v for k, v in self.env.items() if k != "XDG_RUNTIME_DIR"}
        theirs |= {"HOME": home, "USER": "victim", "LOGNAME": "victim", "USERNAME": "victim"}
        return subprocess.run(
            [sys.executable, AS_USER, account, sys.executable, "-c", code, *arguments],
            env=theirs | env,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def said(self, account: str, *arguments: str, **env: str) -> str:
        """Run a command as an account, which must succeed; return its output."""
        ended = self.as_user(account, *arguments, **env)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def refused(self, account: str, *arguments: str) -> str:
        """Run a command as an account, which must be refused; return the reason."""
        ended = self.as_user(account, *arguments)
        assert ended.returncode == 4, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr


def shared_machine(*options: str) -> Iterator[SharedMachine]:
    """Yield a machine with a shared cluster, whose head has these options."""
    if os.getuid() != 0:
        pytest.skip("only root can act as other accounts")
    if len(accounts()) < 2:
        pytest.skip(f"the machine lacks two of the accounts {', '.join(ACCOUNTS)}")
    machine = SharedMachine()
    try:
        machine.start_head("--shared", *options)
        yield machine
    finally:
        machine.end()


@pytest.fixture(scope="module")
def shared() -> Iterator[SharedMachine]:
    """Yield a shared cluster in which both people may submit to the queue default."""
    for machine in shared_machine():
        one, two = accounts()[:2]
        machine.done("queue", "update", "default", "--submit", f"{one}, {two}")
        yield machine


@pytest.fixture
def ana() -> str:
    """An account of the machine."""
    return accounts()[0]


@pytest.fixture
def bo() -> str:
    """Another account."""
    return accounts()[1]


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine of one person."""
    made = Machine()
    yield made
    made.end()
