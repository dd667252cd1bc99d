"""The common parts of tasks and actor calls that are under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from phalanx.objects.reference import ObjectRef
from phalanx.owner.children import Parent
from phalanx.owner.transport import Connection
from phalanx.protocol.messages import Payload


class Recipe(Protocol):
    """Makes new work that runs finished work again. It holds everything except the arguments and
    the results.
    """

    name: str
    """The name of the work for display: "task f", "call Actor.m"."""
    returns: int
    option: str
    """The option that says how often the work may run again."""
    allowed: int
    """The value of the option; -1 for any number of times."""

    def refusal(self) -> str:
        """Return why the work cannot run now, as a clause; empty if it can."""
        ...

    def renew(self, number: int, args: Payload) -> PendingWork:
        """Return the work again, without references, retries and stream."""
        ...


class PendingWork:
    """A task or call between its submission and its last result."""

    __slots__ = (
        "args",
        "attempt",
        "cancelled",
        "inputs",
        "missing",
        "number",
        "on_ready",
        "parent",
        "pins",
        "refs",
        "retries",
        "stream",
    )

    number: int
    args: Payload
    inputs: list[ObjectRef[Any]] | None
    """The top-level references among the arguments. Their values are sent with the work."""
    pins: list[Any] | None
    """(hold on the arguments' file, references inside the arguments); kept until the work ends."""
    refs: list[ObjectRef[Any]]
    """The references of the work's future results, without the items of a stream."""
    retries: int
    attempt: int
    cancelled: str
    """Why the work is to end: CANCELLED, FORCED or TIMED_OUT; empty if it is not to end."""
    missing: int
    """The number of inputs that are not there."""
    on_ready: Callable[[Any], None] | None
    """Called with this work once no input is missing any more."""
    parent: Parent | None
    """The work that submitted this work; None if a driver submitted it."""
    stream: Any
    """Takes the items of a generator: a Stream, or a RemadeStream."""

    def notify(self, failed: bool = False) -> None:
        """Count one input that is ready. The input calls this method because this work is one of
        its waiters.
        """
        self.missing -= 1
        if self.missing == 0 and self.on_ready is not None:
            self.on_ready(self)

    @property
    def connection(self) -> Connection | None:
        """The connection to the process that runs the work now; None if no process does."""
        raise NotImplementedError

    def recipe(self) -> Recipe:
        """Return the recipe that runs the work once more."""
        raise NotImplementedError


CANCELLED = "cancelled"
"""The program cancelled the work."""
FORCED = "force"
"""The program cancelled the work, by ending its process if necessary."""
TIMED_OUT = "timeout"
"""The work was cancelled because it ran longer than its `timeout_s`."""
