"""Work that owners have sent to this process and that has not begun."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

from phalanx.objects.names import prefix_of_name
from phalanx.objects.serialization import unpack_calls
from phalanx.protocol.messages import (
    SHARED,
    Call,
    Calls,
    Failed,
    Message,
    Payload,
    Returned,
    Task,
    Tasks,
    Value,
)

Key = tuple[bytes, int]
"""A task or call, as (owner, number)."""


class Connection(Protocol):
    """A connection to an owner."""

    peer: bytes

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        ...

    def post(self, message: Message) -> None:
        """Send a message with the next flush."""
        ...

    def send(self, message: Message) -> None:
        """Send a message now, and not with the next flush."""
        ...


NO_INPUTS: list[Payload] = []


class PlainTask(Task, array_like=True, tag=3, gc=False):
    """A task that came in a message with many tasks. Its arguments are plain values, which are
    unpickled already.
    """

    plain: tuple[Any, ...] = ()


class PlainCall(Call, array_like=True, tag=4, gc=False):
    """A call that came in a message with many calls. Its arguments are plain values, as in
    PlainTask.
    """

    plain: tuple[Any, ...] = ()


def tasks_of(message: Tasks) -> Iterator[Task]:
    """Yield each of several tasks that came in one message."""
    function, name = message.function, message.name
    for number, args in enumerate(unpack_calls(message.args), message.first):
        if type(args) is tuple:
            yield PlainTask(number, function, b"", NO_INPUTS, 1, name, 0, -1, args)
        else:
            assert isinstance(args, bytes)
            yield Task(number, function, args, NO_INPUTS, 1, name)


def calls_of(message: Calls) -> Iterator[Call]:
    """Yield each of several calls that came in one message."""
    method, group, actor, name = message.method, message.group, message.actor, message.name
    for number, args in enumerate(unpack_calls(message.args), message.first):
        if type(args) is tuple:
            yield PlainCall(number, method, b"", NO_INPUTS, 1, group, 0, -1, actor, name, args)
        else:
            assert isinstance(args, bytes)
            yield Call(number, method, args, NO_INPUTS, 1, group, 0, -1, actor, name)


Entry = tuple[Connection, Task | Call]


class AssignedWork(deque[Entry]):
    """Tasks or calls in the order in which they came, each with its connection.

    One thread may add, cancel and return entries while another takes them: each step is a single
    operation of the deque, and an entry that is no longer there was taken.
    """

    def take(self) -> Entry | None:
        """Remove and return the next entry; None if there is none."""
        try:
            return self.popleft()
        except IndexError:
            return None

    def cancel(self, key: Key, now: float) -> bool:
        """Cancel work that this process has not begun, and answer its owner. Returns False if the
        work is not here. `now`: seconds since the epoch.
        """
        for entry in list(self):
            connection, work = entry
            if (connection.peer, work.number) == key:
                try:
                    self.remove(entry)
                except ValueError:
                    return False
                connection.send(Failed(key[1], b"", now, now, "cancelled"))
                return True
        return False

    def return_all(self) -> None:
        """Return all work to its owners."""
        back: dict[Connection, list[int]] = {}
        while (entry := self.take()) is not None:
            connection, work = entry
            back.setdefault(connection, []).append(work.number)
        for connection, numbers in back.items():
            connection.send(Returned(numbers))

    def drop(self, connection: Connection) -> None:
        """Drop the work that came over a connection which has ended."""
        for entry in [entry for entry in list(self) if entry[0] is connection]:
            try:
                self.remove(entry)
            except ValueError:
                continue

    def files_from(self, prefix: bytes) -> Iterator[str]:
        """Yield the names of the shared-memory files that this work will read, if a process of a
        given node has written them. `prefix`: the beginning of the ids of that node's processes.
        """
        for _, work in list(self):
            for value in (work.args, *work.inputs):
                if type(value) is Value and value.kind == SHARED:
                    name = value.data.decode()
                    if prefix_of_name(name) == prefix:
                        yield name
