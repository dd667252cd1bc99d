"""Tasks and calls of this worker whose items are on their way to a reader."""

from __future__ import annotations

from phalanx.worker.assigned import Connection
from phalanx.worker.context import TaskContext


class OpenStreams:
    """By the connection that each came by, and its number.

    One thread may begin and end streams while another says that connections have ended.
    """

    def __init__(self) -> None:
        self._contexts: dict[tuple[Connection, int], TaskContext] = {}

    def begin(self, connection: Connection, number: int, context: TaskContext) -> None:
        """Items of a task or call come from now on. Where its connection has ended since it was
        sent, nobody takes them: it ends as soon as it would wait for its reader."""
        self._contexts[connection, number] = context
        if connection.closed:  # `lost` looks at the entries after it was closed
            context.is_cancelled = True

    def end(self, connection: Connection, number: int) -> None:
        """There are no more."""
        self._contexts.pop((connection, number), None)

    def get(self, connection: Connection, number: int) -> TaskContext | None:
        """The task or call of that number, if it gives items now."""
        return self._contexts.get((connection, number))

    def lost(self, connection: Connection) -> list[TaskContext]:
        """What gives items to the reader behind a connection that has ended: it is cancelled."""
        contexts = [one for key, one in list(self._contexts.items()) if key[0] is connection]
        for context in contexts:
            context.is_cancelled = True
        return contexts
