"""Events that must not end a fork server. Without it, nothing starts or ends on its node."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from phalanx.runtime.os import child as children
from phalanx.runtime.os import process_tree
from phalanx.runtime.os.child import Child
from phalanx.runtime.os.helpers import how_ended

PROGRAM = """
import os, socket
from phalanx.protocol.fork_messages import Exited, Forked, decode_body
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.worker.fork_server import WorkerForkServer

ours, theirs = socket.socketpair()
server = WorkerForkServer(ours, None)
server._become_worker = lambda *given: 7
server._fork(b"worker", {})
(forking,) = server._forking.values()
os.waitid(os.P_PID, forking.shield.pid, os.WEXITED | os.WNOWAIT)
server._end_orphans()
node, heard = Connection(theirs, decode=decode_body), []
while not any(isinstance(one, Exited) for one in heard):
    server.round(1.0)
    heard += node.receive()
print(*(type(one).__name__ for one in heard), heard[-1].code)
"""


START_ENDS = """
import socket
from phalanx.runtime.os.child_keeper import ChildKeeper

class Keeper(ChildKeeper):
    is_started = False

    def new_shields(self):
        found = set() if self.is_started else {77}
        self.is_started = True
        return found

    def being_started(self):
        found = {77} if self.is_started else set()
        self.is_started = True
        return found

print(Keeper(socket.socketpair()[0])._known())
"""


def test_a_command_whose_start_ends_at_this_moment_is_no_orphan() -> None:
    """In an earlier version a thread of the fork server ended a start between two checks of the
    main thread. The command was then killed as an orphan of another command.
    """
    found = subprocess.run(
        [sys.executable, "-c", START_ENDS], capture_output=True, text=True, check=False
    )
    assert (found.stdout, found.stderr) == ("{77}\n", "")


def test_a_worker_may_end_before_its_start_was_noticed() -> None:
    """In an earlier version, if the fork server was stopped in between, it saw the end of another
    child first. The worker was then taken for an orphan of that child.
    """
    # in a process of its own, which has no children but these
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert (found.stdout, found.stderr) == ("Forked Exited 7\n", "")


@pytest.mark.parametrize(
    ("ends", "how"),
    [
        ("os.kill(os.getpid(), 9)", "was killed"),
        ("os.kill(os.getpid(), 15)", "was ended by SIGTERM"),
        ("os.abort()", "was ended by SIGABRT"),
        ("os.kill(os.getpid(), 50)", "was ended by signal 50"),
        ("sys.exit(3)", "ended with exit code 3, which is a fault of Phalanx"),
    ],
)
def test_a_node_says_how_a_helper_has_ended(ends: str, how: str) -> None:
    helper = subprocess.Popen([sys.executable, "-c", f"import os, sys; {ends}"])
    os.waitid(os.P_PID, helper.pid, os.WEXITED | os.WNOWAIT)
    assert how_ended(helper.pid) == how
    helper.wait()


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Refuse all signals, as if every process belonged to another account; return the pids of the
    processes to which signals were sent.
    """
    asked: list[int] = []

    def refuse(pid: int, number: int) -> None:
        asked.append(pid)
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    monkeypatch.setattr(os, "killpg", refuse)
    return asked


@pytest.mark.parametrize("is_command", [True, False])
def test_a_child_of_another_account_may_refuse_a_signal(foreign: Any, is_command: bool) -> None:
    children.send_signal(Child(b"child", 12345, is_command=is_command), 9)
    assert foreign == [12345]


def test_a_process_of_another_account_in_a_command_may_refuse_a_signal(foreign: Any) -> None:
    process_tree.signal_command(12345, 10, "command")
    assert foreign == [12345]


def test_orphans_of_another_account_stay_for_the_next_time(
    foreign: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_tree, "own_children", lambda: [12345])
    monkeypatch.setattr(process_tree, "reaped", lambda pid: False)
    assert not process_tree.end_orphans(lambda: ())
    assert foreign == [12345, 12345], "it was to be stopped, then killed"
