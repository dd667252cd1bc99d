"""Events of a descriptor that is closed before they are handled. The handler of an earlier event
has closed it, and its number has been given to another file.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.polling import eventually

from phalanx.protocol.messages import Fetch
from phalanx.runtime.driver.reactor import Reactor
from phalanx.runtime.os import child_keeper
from phalanx.runtime.os.child import Child
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.fork_server import ForkServer
from phalanx.runtime.os.loop import Loop


def test_a_loop_tells_no_reader_of_what_another_one_had_to_read() -> None:
    """Two events arrive together. The handler of the first one closes the descriptor of the second,
    whose number is then given to a file without data.
    """
    pipes = [os.pipe() for _ in range(2)]
    quiet = os.pipe()
    told: list[str] = []
    loop = Loop(lambda now: None, lambda: None)

    def reader(me: int) -> Callable[[], None]:
        def read() -> None:
            told.append("ready")
            other = pipes[1 - me][0]
            loop.unregister(other)
            os.dup2(quiet[0], other)
            loop.read_from(other, lambda: told.append("quiet"))
            loop.call(lambda: setattr(loop, "is_stopping", True))

        return read

    for me, (ours, theirs) in enumerate(pipes):
        os.write(theirs, b"x")
        loop.read_from(ours, reader(me))
    loop.serve()
    assert told == ["ready"]
    for fd in {fd for pair in (*pipes, quiet) for fd in pair}:
        os.close(fd)


def test_a_reactor_reads_no_connection_for_what_came_to_another() -> None:
    ends = [socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(3)]
    near = [Connection(mine) for mine, _ in ends[:2]]
    read: list[Any] = []

    class Quiet(Connection):
        def receive(self) -> list[Any] | None:
            read.append("quiet")
            return super().receive()

    def handle(connection: Connection, messages: list[Any]) -> None:
        read.append("ready")
        other = near[1 - near.index(connection)]
        number = other.fileno
        reactor.drop(other)
        os.dup2(ends[2][0].fileno(), number)
        near.append(Quiet(socket.socket(fileno=number)))
        reactor.add(near[-1])

    reactor = Reactor(handle, lambda connection: None, None, lambda now: 60.0, None)
    for one, (_, far) in zip(list(near), ends, strict=False):
        reactor.add(one)
        Connection(far).send(Fetch(1))
    reactor.poll(0)
    assert read == ["ready"]
    reactor.stop()
    reactor.close()
    for one in near:
        one.close()
    for pair in ends:
        for end in pair:
            end.close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a fork server in this process, whose node does not read yet.

    Other children of this process belong to other tests, so the fork server does not count them as
    orphans.
    """
    monkeypatch.setattr(child_keeper, "keep_descendants", lambda: None)
    monkeypatch.setattr(ForkServer, "_end_orphans", lambda self: None)
    ours, theirs = socket.socketpair()
    session: Any = None  # only commands with streams have files there
    made = ForkServer(ours, session)
    yield made
    made._epoll.close()
    for fd in list(made._readers):
        os.close(fd)
    theirs.close()
    ours.close()


def test_a_fork_server_waits_for_no_child_that_lives(server: Any) -> None:
    """In an earlier version the fork server was blocked for ever, and nothing started or ended on
    its node any more.
    """
    waits = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    child = Child(b"a worker", waits.pid, is_command=False)
    server.adopt(child)
    (pidfd,) = (fd for fd in server._readers if os.readlink(f"/proc/self/fd/{fd}").count("pidfd"))
    late = threading.Thread(target=server._readers[pidfd], daemon=True)
    late.start()
    eventually(lambda: not late.is_alive(), "the late event is handled")
    assert server._children == {b"a worker": child}
    waits.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, waits.pid, os.WEXITED | os.WNOWAIT)
    server._readers[pidfd]()
    assert server._children == {}
    assert waits.stdin is not None
    waits.stdin.close()
    waits.returncode = -signal.SIGKILL
