"""The common parts of tasks and actor calls that have not ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from phalanx.objects.reference import ObjectRef
from phalanx.owner.children import Parent
from phalanx.owner.transport import Connection
from phalanx.protocol.messages import Payload


class Recipe(Protocol):
    """Makes new work that runs finished work again. It has everything except the arguments and the
    results.
    """

    name: str
    """The name of the work for display: "task f", "call Actor.m"."""
    returns: int
    option: str
    """The name of the option that says how often the work may run again."""
    allowed: int
    """The value of the option; -1 for any number of times."""

    def refusal(self) -> str:
        """Return in a clause why the work cannot run again now; "" if the work can run again."""
        ...

    def renew(self, number: int, args: Payload) -> PendingWork:
        """Return new work that does the same, with this number and these arguments. It has no
        references, retries or stream yet.
        """
        ...


class PendingWork:
    """A task or call, from its submission until its last result has arrived."""

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
    """The references among the top-level arguments. Their values are sent with the work."""
    pins: list[Any] | None
    """A pair: the hold on the arguments' file, and the references in the arguments. Both are kept
    until the work ends.
    """
    refs: list[ObjectRef[Any]]
    """The references to the work's future results, without the items of a stream."""
    retries: int
    attempt: int
    cancelled: str
    """Why the work must end: CANCELLED, FORCED or TIMED_OUT; "" if the work need not end."""
    missing: int
    """The number of inputs that are not here yet."""
    on_ready: Callable[[Any], None] | None
    """A function that is called with this work when no input is missing."""
    parent: Parent | None
    """The work that submitted this work; None if a driver submitted it."""
    stream: Any
    """Takes the items of a generator: a Stream or a RemadeStream."""

    def notify(self, failed: bool = False) -> None:
        """Count one more ready input. The input calls this method, because this work is one of its
        waiters.
        """
        self.missing -= 1
        if self.missing == 0 and self.on_ready is not None:
            self.on_ready(self)

    @property
    def is_listed(self) -> bool:
        """Whether listings show the work."""
        raise NotImplementedError

    @property
    def connection(self) -> Connection | None:
        """The connection to the process that has the work now; None if no process has it."""
        raise NotImplementedError

    def recipe(self) -> Recipe:
        """Return the recipe that runs the work again."""
        raise NotImplementedError


CANCELLED = "cancelled"
"""The reason that the program cancelled the work."""
FORCED = "force"
"""The reason that the program cancelled the work, and allowed Phalanx to end the work's process."""
TIMED_OUT = "timeout"
"""The reason that the work ran longer than its `timeout_s`."""
