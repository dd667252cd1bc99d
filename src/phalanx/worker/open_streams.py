"""The tasks and calls of this worker that send items to a reader."""

from __future__ import annotations

from phalanx.worker.assigned import Connection
from phalanx.worker.context import TaskContext


class OpenStreams:
    """The open streams, by the connection and the number of the task or call.

    One thread may begin and end streams while another reports that connections have ended.
    """

    def __init__(self) -> None:
        self._contexts: dict[tuple[Connection, int], TaskContext] = {}

    def begin(self, connection: Connection, number: int, context: TaskContext) -> None:
        """Add a task or call that sends items from now on.

        If its connection has ended already, nobody takes the items, and the work ends as soon as it
        would wait for its reader.
        """
        self._contexts[connection, number] = context
        if connection.closed:  # `lost` reads the entries after the connection was closed
            context.is_cancelled = True

    def end(self, connection: Connection, number: int) -> None:
        """Remove a task or call that sends no more items."""
        self._contexts.pop((connection, number), None)

    def get(self, connection: Connection, number: int) -> TaskContext | None:
        """Return the task or call with that number, if it sends items now."""
        return self._contexts.get((connection, number))

    def lost(self, connection: Connection) -> list[TaskContext]:
        """Cancel and return the work that sends items over a connection which has ended."""
        contexts = [one for key, one in list(self._contexts.items()) if key[0] is connection]
        for context in contexts:
            context.is_cancelled = True
        return contexts
