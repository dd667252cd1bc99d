"""The node's side of the accounts' fork servers: which messages of a fork server the node accepts,
and which it refuses.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from phalanx.node.peers import ACCOUNT
from phalanx.protocol.bundle_messages import Command, Grant, StartMember
from phalanx.protocol.fork_messages import (
    Began,
    Exited,
    OutputRead,
    RunCommand,
    SendSignal,
    decode_body,
)
from phalanx.protocol.node_messages import LogLine
from phalanx.runtime.node.user_forks import KEPT_S, KILLED_S, UserForks
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.job_files import JobDirectories


class Loop:
    """An event loop whose descriptors the test reads."""

    def __init__(self) -> None:
        self.readers: dict[int, Callable[[], None]] = {}
        self.watched: list[Connection] = []

    def watch(self, connection: Connection) -> None:
        self.watched.append(connection)

    def forget(self, connection: Connection) -> bool:
        self.watched.remove(connection)
        connection.close()
        return True

    def read_from(self, fd: int, reader: Callable[[], None]) -> None:
        self.readers[fd] = reader

    def unregister(self, fd: int) -> bool:
        return self.readers.pop(fd, None) is not None


class Launch:
    """Stands for phalanx-launch: receives what the node sends, and answers as the test says."""

    def __init__(self, path: str) -> None:
        self.door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.door.bind(path)
        self.door.listen(8)
        self.taken: list[tuple[socket.socket, bytes, Connection]] = []

    def take(self) -> tuple[socket.socket, bytes, Connection]:
        connection, _ = self.door.accept()
        data, fds, _, _ = socket.recv_fds(connection, 1 << 16, 4)
        server = Connection(socket.socket(fileno=fds[0]), decode=decode_body)
        self.taken.append((connection, data, server))
        return self.taken[-1]

    def end(self) -> None:
        for connection, _, server in self.taken:
            connection.close()
            server.close()
        self.door.close()


class Node:
    """The node's side, with a clock that the test sets."""

    def __init__(self, directory: Path) -> None:
        self.now = 0.0
        self.loop, self.ended = Loop(), list[Exited]()
        self.notes: list[str] = []
        files = JobDirectories(str(directory / "jobs"))
        path = str(directory / "launch")
        self.users = UserForks(
            self.loop, path, files, lambda: self.now, self.ended.append, self._note
        )

    def _note(self, text: str, *, level: str = "", job: str = "") -> None:
        self.notes.append(text)

    def start(self, process: bytes, grant: Grant | None) -> None:
        command = Command(["true"], {}, "/")
        order = StartMember(b"g" * 16, 0, 1, "default/j", "j-0", [], [command], {}, 1.0)  # type: ignore[arg-type]
        order.grant = grant
        self.users.admit(order)
        self.users.run(process, order, command, "/log")
        self.users.report()
        for connection in self.loop.watched:
            connection.flush()

    def read(self) -> None:
        """Handle the messages that have arrived."""
        ready, _, _ = select.select(list(self.loop.readers), [], [], 60)
        for fd in ready:
            self.loop.readers[fd]()
        self.users.report()

    def hear(self, message: msgspec.Struct, connection: Connection | None = None) -> object:
        return self.users.heard(connection or self.loop.watched[0], message)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.users.end_everything()


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    made = Launch(str(tmp_path / "launch"))
    yield made
    made.end()


ANA, BO = Grant("ana", 4321, b"signed-a"), Grant("bo", 4322, b"signed-b")


def orders(server: Connection) -> list[msgspec.Struct]:
    select.select([server.fileno], [], [], 60)
    return server.receive() or []


def test_one_fork_server_for_each_account(node: Node, launch: Launch) -> None:
    node.start(b"1", ANA)
    door, data, server = launch.take()
    assert data == b"signed-a"
    door.send(b"begun")
    node.read()
    node.start(b"2", ANA)
    assert [type(one) for one in orders(server)] == [RunCommand, RunCommand]
    node.start(b"3", BO)
    assert launch.take()[1] == b"signed-b" and len(node.loop.watched) == 2
    assert not node.ended


def test_without_phalanx_launch_it_is_the_nodes_fault(node: Node) -> None:
    node.start(b"1", ANA)
    (end,) = node.ended
    assert end.is_shortage and "phalanx-launch" in end.reason and node.notes


@pytest.mark.parametrize(
    ("answer", "why", "is_nodes"),
    [(b"no account", "no account ana with the number 4321", False), (b"", "phalanx-launch", True)],
)
def test_a_refusal_ends_the_start(
    node: Node, launch: Launch, answer: bytes, why: str, is_nodes: bool
) -> None:
    node.start(b"1", ANA)
    door, _, server = launch.take()
    if answer:
        door.send(answer)
    door.close()
    server.close()
    connection = node.loop.watched[0]
    node.users.server_lost(connection)
    assert not node.ended, "the reason comes from phalanx-launch"
    node.read()
    (end,) = node.ended
    assert why in end.reason and end.is_shortage == is_nodes and not node.loop.watched


def test_orders_without_a_grant_are_refused(node: Node, launch: Launch) -> None:
    node.start(b"1", None)
    node.start(b"2", Grant("robot", 640, refusal="no job runs as robot"))
    assert ["--system" in node.ended[0].reason, node.ended[1].reason] == [
        True,
        "no job runs as robot",
    ]
    assert not any(end.is_shortage for end in node.ended)
    launch.door.setblocking(False)
    with pytest.raises(BlockingIOError):
        launch.door.accept()


LIES = {
    "the begin of another's": Began(b"2", 1),
    "the end of another's": Exited(b"2", 1, 0),
    "an unknown end": Exited(b"unknown", 1, 0),
    "a line of a worker": LogLine(1, "", "text", False),
    "an answer": OutputRead(),
    "an order": SendSignal(b"2", 9),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_account_speaks_of_its_own_processes_alone(node: Node, launch: Launch, lie: str) -> None:
    node.start(b"1", ANA)
    door, _, _ = launch.take()
    door.send(b"begun")
    node.read()
    node.start(b"2", BO)
    launch.take()
    of_ana, of_bo = node.loop.watched
    assert node.hear(LIES[lie], of_ana) is None
    node.users.report()
    (end,) = node.ended
    assert end.process == b"1" and end.is_parent_killed and door.recv(1) == b"", "it is ended"
    assert node.loop.watched == [of_bo] and "may not" in node.notes[-1]
    assert of_ana.tag == ACCOUNT and node.hear(Began(b"1", 7), of_ana) is None, "it says no more"
    assert node.hear(Began(b"2", 7), of_bo) == Began(b"2", 7)


def test_an_account_tells_each_begin_and_end_once(node: Node, launch: Launch) -> None:
    node.start(b"1", ANA)
    launch.take()
    node.start(b"2", ANA)
    lie = node.hear(Exited(b"1", 0, 1, "no room", is_shortage=True))
    assert isinstance(lie, Exited) and not lie.is_shortage, "it cannot close the node"
    assert node.hear(Began(b"2", 7)) == Began(b"2", 7)
    assert node.hear(Began(b"2", 7)) is None and not node.loop.watched


@pytest.mark.parametrize(
    "used", [{"cpu_s": float("nan")}, {"cpu_s": -1.0}, {"cpu_s": float("inf")}, {"memory": -5}]
)
def test_measurements_that_cannot_be_are_left_out(
    node: Node, launch: Launch, used: dict[str, float]
) -> None:
    node.start(b"1", ANA)
    launch.take()
    end = node.hear(Exited(b"1", 7, 3, **used))  # type: ignore[arg-type]
    assert end == Exited(b"1", 7, 3)


def test_a_fork_server_that_ends_ends_its_work(node: Node, launch: Launch) -> None:
    node.start(b"1", ANA)
    door, _, server = launch.take()
    door.send(b"begun")
    node.read()
    server.close()
    node.users.server_lost(node.loop.watched[0])
    node.users.report()
    (end,) = node.ended
    assert end.code == -9 and end.is_parent_killed
    assert door.recv(1) == b"", "phalanx-launch ends what is left"
    node.start(b"2", ANA)
    assert launch.take()[1] == b"signed-a"


def test_an_account_that_carries_out_no_kill_loses_all_its_work(node: Node, launch: Launch) -> None:
    node.start(b"1", ANA)
    door, _, server = launch.take()
    door.send(b"begun")
    node.read()
    node.users.kill(b"1")
    node.loop.watched[0].flush()
    assert SendSignal(b"1", 9) in orders(server)
    node.now = KILLED_S
    node.users.tick(node.now)
    assert node.loop.watched, "it has its time"
    node.now += 0.1
    node.users.tick(node.now)
    assert not node.loop.watched and node.ended[0].is_parent_killed and door.recv(1) == b""


def test_an_idle_fork_server_is_kept_for_a_while(node: Node, launch: Launch) -> None:
    node.start(b"1", ANA)
    door, _, _ = launch.take()
    door.send(b"begun")
    node.read()
    node.now = 100 * KEPT_S
    node.users.tick(node.now)
    assert node.loop.watched, "it has work"
    node.hear(Exited(b"1", 7, 0))
    node.now += KEPT_S / 2
    node.users.tick(node.now)
    assert node.loop.watched
    node.now += KEPT_S
    node.users.tick(node.now)
    assert not node.loop.watched and door.recv(1) == b""
    assert not node.ended
