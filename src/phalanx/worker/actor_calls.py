"""The calls of a worker's actor: those that run, wait or are cancelled.

Each call belongs to a concurrency group, which limits how many of its calls run at the same time.
Calls that have to wait begin in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from phalanx.protocol.messages import Call
from phalanx.worker.assigned import AssignedWork, Entry, Key
from phalanx.worker.context import TaskContext


class _Group:
    """A concurrency group: its limit, the number of its running calls, and its waiting calls."""

    __slots__ = ("limit", "running", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.running = 0
        self.waiting = AssignedWork()


class ActorCalls:
    """The calls of the actor in this process, by (owner, number)."""

    def __init__(
        self, max_concurrency: int, groups: Mapping[str, int], wall: Callable[[], float]
    ) -> None:
        """`max_concurrency`: the limit for calls that name no group. `groups`: the limit of each
        group. `wall` returns seconds since the epoch.
        """
        self._wall = wall
        self._groups = {"": _Group(max_concurrency)}
        self._groups |= {name: _Group(limit) for name, limit in groups.items()}
        self.method_groups: dict[str, str] = {}
        """The group of each method that declares one."""
        self.received = AssignedWork()
        """The calls that have arrived, but have not yet been admitted or made to wait in their
        groups.

        If an actor runs one call after another, all its waiting calls are here.
        """
        self.contexts: dict[Key, TaskContext] = {}
        """The running calls."""

    @property
    def is_idle(self) -> bool:
        """Whether no call runs or waits."""
        groups = self._groups.values()
        return not (self.received or any(group.running or group.waiting for group in groups))

    @property
    def are_running(self) -> bool:
        """Whether at least one call runs."""
        return any(group.running for group in self._groups.values())

    def drop_waiting(self) -> None:
        for work in self.waiting():
            work.clear()

    @property
    def groups(self) -> list[str]:
        """The names of all groups; "" for calls that name none."""
        return list(self._groups)

    def running(self, group: str) -> int:
        """Return how many calls of a group were admitted and have not finished."""
        return self._groups[group].running

    def waiting(self) -> list[AssignedWork]:
        """Return all calls that have not begun."""
        return [self.received, *(group.waiting for group in self._groups.values())]

    # ---- concurrency groups ------------------------------------------------------------------

    def admit(self, entry: Entry) -> bool:
        """Admit a call if it may begin now. Otherwise the call waits until `finished` returns
        it.
        """
        group = self._groups[self.group_of(entry)]
        if group.running >= group.limit:
            group.waiting.append(entry)
            return False
        group.running += 1
        return True

    def finished(self, entry: Entry) -> Entry | None:
        """Note that an admitted call has ended. Returns the waiting call that may begin in its
        place, if there is one.
        """
        group = self._groups[self.group_of(entry)]
        following = group.waiting.take()
        if following is None:
            group.running -= 1
        return following

    def group_of(self, entry: Entry) -> str:
        """Return the concurrency group of a call; "" for the default group."""
        _, call = entry
        assert isinstance(call, Call)
        name = call.group or self.method_groups.get(call.method, "")
        return name if name in self._groups else ""

    def check_group(self, call: Call, class_name: str) -> None:
        """Raise ValueError if the call names a group that its actor does not have."""
        if call.group and call.group not in self._groups:
            known = ", ".join(sorted(g for g in self._groups if g)) or "none"
            raise ValueError(
                f"{class_name} has no concurrency group {call.group!r}; it has: {known}."
            )

    # ---- cancelling --------------------------------------------------------------------------

    def cancel(self, key: Key) -> TaskContext | None:
        """Cancel a call. If the call runs, returns its context, so that the caller can interrupt
        it.
        """
        if any(work.cancel(key, self._wall()) for work in self.waiting()):
            return None
        context = self.contexts.get(key)
        if context is not None:
            context.is_cancelled = True
        return context
