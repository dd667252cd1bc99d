"""If many commands end at the same time, a fork server reports the start and the end of a command
in one message.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.command_starting import subreaper

from phalanx.protocol.fork_messages import Began, Exited, RunCommand, SendSignal, decode_body
from phalanx.runtime.os import child_keeper, fork_server
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.fork_server import TOGETHER_S, ForkServer


class Node:
    """The node of a fork server that runs in this process. The clock stands still."""

    def __init__(self, server: ForkServer, sock: socket.socket, directory: Path) -> None:
        self._server = server
        self._directory = directory
        self._link = Connection(sock, decode=decode_body)

    def run(self, name: str, *argv: str, exit_file: str = "") -> None:
        """Order the fork server to start a command."""
        log = str(self._directory / f"{name}.log")
        here = str(self._directory)
        self._link.send(RunCommand(name.encode(), [*argv], {}, here, log, 0, exit_file=exit_file))

    def kill(self, name: str) -> None:
        """Order the fork server to end a command."""
        self._link.send(SendSignal(name.encode(), int(signal.SIGKILL)))

    def serve(self, is_done: Callable[[], Any]) -> None:
        """Let the fork server work until the condition holds."""
        while not is_done():
            self._server.round(0.05)

    def news(self) -> list[msgspec.Struct]:
        """Let the fork server work until it sends something; return these messages."""
        while not (found := self._link.receive()):
            self._server.round(0.05)
        return found

    def is_running(self, name: str) -> bool:
        """Whether the fork server watches a command."""
        return name.encode() in self._server._children


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(fork_server, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch, clock: object, tmp_path: Path) -> Iterator[Node]:
    monkeypatch.setattr(child_keeper, "keep_descendants", lambda: None)
    # Other children of this process are not the fork server's.
    monkeypatch.setattr(ForkServer, "_end_orphans", lambda self: None)
    monkeypatch.setattr(child_keeper, "end_orphans", lambda known: True)
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    session: Any = None  # only commands with streams have files there
    with subreaper():
        server = ForkServer(ours, session)
        yield Node(server, theirs, tmp_path)
        server.end_everything()
    server._epoll.close()
    for fd in (*server._readers, server.lifeline, server._own_end):
        os.close(fd)
    theirs.close()
    ours.close()


def test_what_has_begun_is_reported_at_once_until_a_command_ends_at_once(node: Node) -> None:
    node.run("first", "sleep", "60")
    (began,) = node.news()
    assert isinstance(began, Began)
    assert node.is_running("first")


def test_a_command_that_ends_at_once_is_one_report_after_another_such_command(node: Node) -> None:
    node.run("first", "true")
    first = node.news()
    first += [] if len(first) > 1 else node.news()
    assert [type(one) for one in first] == [Began, Exited]
    node.run("second", "true")
    assert [type(one) for one in node.news()] == [Began, Exited]


def test_a_report_waits_no_longer_than_it_must(node: Node, clock: SimpleNamespace) -> None:
    node.run("first", "true")
    while not any(isinstance(one, Exited) for one in node.news()):
        pass
    node.run("second", "sleep", "60")
    node.serve(lambda: node.is_running("second"))
    assert node._link.receive() == []
    clock.now += TOGETHER_S
    (began,) = node.news()
    assert isinstance(began, Began)
    assert began.process == b"second"


def test_a_kept_command_is_reported_at_once(node: Node, tmp_path: Path) -> None:
    """The node stores the command's pid, by which the node's next process finds the command."""
    node.run("first", "true")
    while not any(isinstance(one, Exited) for one in node.news()):
        pass
    node.run("second", "sleep", "60", exit_file=str(tmp_path / "exit"))
    (began,) = node.news()
    assert isinstance(began, Began)
    node.kill("second")
    while not any(isinstance(one, Exited) for one in node.news()):
        pass
