"""A fork server of an account outlives its node's process, and the next process reaches it."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from tests.polling import eventually

from phalanx.node.kept_members import ENDED, RUNS, UNBEGUN, KeptMember
from phalanx.protocol.bundle_messages import Command, Grant, StartMember
from phalanx.protocol.fork_messages import (
    Began,
    Commands,
    Exited,
    ForgetEnds,
    RunCommand,
    SendSignal,
    decode_body,
)
from phalanx.runtime.node import earlier_accounts
from phalanx.runtime.node.earlier_accounts import EarlierAccounts, Reached, reach
from phalanx.runtime.os import account_doors
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.kept_records import KeptRecords
from phalanx.runtime.os.process_tree import is_dead

UID = 4321
NONE = Commands([], [])
T = TypeVar("T", bound=msgspec.Struct)
SERVE = """
import socket, sys
from phalanx.runtime.os.session import Session
from phalanx.runtime.worker.user_fork_server import UserForkServer
nothing = Session(name="", directory="/x", shared="/x", spill="/x", disk="/x")
UserForkServer(socket.socket(fileno=int(sys.argv[1])), nothing).serve()
"""


class Server:
    """A fork server of an account. No process of root guards its door."""

    def __init__(self, directory: Path) -> None:
        self.kept = str(directory / "kept")
        os.mkdir(self.kept)
        self.log = str(directory / "log")
        self.begun: list[int] = []
        listener, self.door = account_doors.listen(self.kept, UID)
        self.node = self.connect()
        fd = listener.fileno()
        words = [sys.executable, "-c", SERVE, str(fd)]
        self.process = subprocess.Popen(words, pass_fds=[fd])
        listener.close()

    def connect(self) -> Connection:
        return Connection(account_doors.connect_to_server(self.kept, UID), decode=decode_body)

    def run(self, process: bytes, script: str, is_kept: bool = True) -> int:
        """Start a command; return its pid."""
        argv = ["/bin/sh", "-c", script]
        self.node.send(RunCommand(process, argv, {}, "/", self.log, 0, is_kept=is_kept))
        began = self.heard(Began)
        assert began.process == process
        self.begun.append(began.pid)
        return began.pid

    def heard(self, kind: type[T]) -> T:
        """Return the next message, which must be of this kind."""
        select.select([self.node.fileno], [], [], 60)
        (message,) = self.node.receive() or []
        assert isinstance(message, kind), message
        return message

    def reach(self) -> Reached:
        found = reach(self.kept, [UID])[UID]
        found.door.close()
        return found

    def remembers_an_end(self) -> bool:
        found = self.reach()
        found.connection.close()
        return bool(found.commands.ended)

    def end(self) -> None:
        for pid in self.begun:  # nobody guards them
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, 9)
        self.process.kill()
        self.process.wait()
        self.door.close()
        self.node.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.end()


def test_kept_commands_go_on_and_their_ends_are_remembered(server: Server, tmp_path: Path) -> None:
    go = tmp_path / "go"
    server.run(b"ends", f"until test -e {go}; do sleep 0.05; done; exit 7")
    stays = server.run(b"stays", "sleep 1000")
    gone = server.run(b"gone", "sleep 1000", is_kept=False)
    server.node.close()
    eventually(lambda: is_dead(gone), "the end of a command that is not kept")
    go.touch()
    eventually(server.remembers_an_end)
    found = server.reach()
    assert found.commands.running == [Began(b"stays", stays)]
    assert [(one.process, one.code) for one in found.commands.ended] == [(b"ends", 7)]
    found.connection.send(ForgetEnds([b"ends"]))
    found.connection.close()
    again = server.reach()
    assert again.commands.ended == []
    server.node = again.connection
    server.node.send(SendSignal(b"stays", 9))
    assert server.heard(Exited).code == -9
    server.node.send(ForgetEnds([b"stays"]))
    server.node.close()
    server.process.wait(60)  # nothing needs it any more


def test_a_fork_server_that_is_stopped_is_not_waited_for(server: Server) -> None:
    server.run(b"stays", "sleep 1000")
    os.kill(server.process.pid, 19)
    times = iter([0.0, 1.0, 2.0, 9.0, 9.0])
    assert reach(server.kept, [UID], lambda: next(times)) == {}
    assert reach(server.kept, [UID + 1]) == {}, "an account without sockets"


class Taking:
    """Takes over the fork servers of a node's earlier process."""

    def __init__(self) -> None:
        self.taken: list[tuple[Grant, set[bytes]]] = []
        self.gone: list[bytes] = []

    def take_over(self, grant: Grant, found: Reached, wanted: object) -> None:
        assert isinstance(wanted, set)
        self.taken.append((grant, set(wanted)))
        found.connection.close()
        found.door.close()

    def lost(self, processes: object) -> None:
        self.gone += list(processes)  # type: ignore[call-overload]


def member(index: int, uid: int, processes: list[bytes]) -> KeptMember:
    command = Command(["true"], {}, "/")
    order = StartMember(b"g" * 18, index, 1, "default/j", "j-0", [], [command], {}, 1.0)  # type: ignore[arg-type]
    order.grant = Grant("ana", uid, b"signed")
    return KeptMember(
        order=order, bundle=1, amounts={}, devices={}, log="/log", began=0.0, processes=processes
    )


def test_the_states_of_commands_are_those_that_their_accounts_report(server: Server) -> None:
    records = KeptRecords(server.kept, lambda *_: None, lambda: 0.0)
    records.keep(member(0, UID, [b"stays", b"never"]))
    records.keep(member(1, UID + 1, [b"lost"]))
    pid = server.run(b"stays", "sleep 1000")
    server.node.close()
    taking = Taking()
    earlier = EarlierAccounts(records, server.kept, taking)
    assert [one.order.index for one in earlier.load()] == [0, 1]
    states = {one: earlier.state(one) for one in (b"stays", b"never", b"lost")}
    assert states == {b"stays": RUNS, b"never": UNBEGUN, b"lost": ENDED}
    assert (earlier.pid(b"stays"), earlier.pid(b"lost")) == (pid, 0)
    assert earlier.how_ended([b"lost"]).is_parent_killed
    for process in (b"stays", b"lost"):
        earlier.adopt(process, Command(["true"], {}, "/"))
    earlier.settle()
    assert [(grant.uid, wanted) for grant, wanted in taking.taken] == [(UID, {b"stays", b"lost"})]
    assert taking.gone == [b"lost"]


def test_an_account_reports_nothing_about_the_commands_of_another(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The account UID says that a command of the account UID + 1 has ended, and that another one
    runs.
    """
    server.run(b"stays", "sleep 1000")
    server.node.close()
    honest = server.reach()
    commands = Commands(
        [*honest.commands.running, Began(b"other", 1)], [Exited(b"their end", 1, 0)]
    )
    found = {UID: honest._replace(commands=commands), UID + 1: honest._replace(commands=NONE)}
    monkeypatch.setattr(earlier_accounts, "reach", lambda *_: found)
    records = KeptRecords(server.kept, lambda *_: None, lambda: 0.0)
    records.keep(member(0, UID, [b"stays"]))
    records.keep(member(1, UID + 1, [b"other", b"their end"]))
    earlier = EarlierAccounts(records, server.kept, Taking())
    earlier.load()
    states = {one: earlier.state(one) for one in (b"stays", b"other", b"their end")}
    assert states == {b"stays": RUNS, b"other": UNBEGUN, b"their end": UNBEGUN}
    honest.connection.close()


def test_accounts_without_records_lose_their_sockets(server: Server) -> None:
    records = KeptRecords(server.kept, lambda *_: None, lambda: 0.0)
    earlier = EarlierAccounts(records, server.kept, Taking())
    server.door.close()  # their guard has ended by itself
    assert earlier.load() == [] and account_doors.accounts_in(server.kept) == []
