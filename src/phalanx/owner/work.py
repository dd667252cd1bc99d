"""The common parts of tasks and actor calls that are under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from phalanx.objects.reference import ObjectRef
from phalanx.owner.children import Parent
from phalanx.owner.transport import Connection
from phalanx.protocol.messages import Payload


class Recipe(Protocol):
    """Makes work again that has run: all of it that is neither arguments nor results."""

    name: str
    """For display: "task f", "call Actor.m"."""
    returns: int
    option: str
    """The option that says how often it may run again."""
    allowed: int
    """The value of that option; -1: any number of times."""

    def refusal(self) -> str:
        """Return why it cannot run now, as a clause; empty when it can."""
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
    """Top-level references among the arguments: their values are sent with the work."""
    pins: list[Any] | None
    """(hold on the arguments' file, references inside the arguments), kept until it ends."""
    refs: list[ObjectRef[Any]]
    """References of its future results, without the items of a stream."""
    retries: int
    attempt: int
    cancelled: str
    """Empty, or why it is to end: CANCELLED, FORCED or TIMED_OUT."""
    missing: int
    """How many of the inputs are not there."""
    on_ready: Callable[[Any], None] | None
    """Called with this work once no input is missing any more."""
    parent: Parent | None
    """The work that submitted it; None for what a driver submitted."""
    stream: Any
    """Takes the items of a generator: a Stream, or a RemadeStream."""

    def notify(self, failed: bool = False) -> None:
        """Count one input that is ready; called because this is one of its waiters."""
        self.missing -= 1
        if self.missing == 0 and self.on_ready is not None:
            self.on_ready(self)

    @property
    def connection(self) -> Connection | None:
        """The connection to the process that runs it now."""
        raise NotImplementedError

    def recipe(self) -> Recipe:
        """Return the recipe that runs it once more."""
        raise NotImplementedError


CANCELLED = "cancelled"
"""Cancelled by the program."""
FORCED = "force"
"""Cancelled, if need be by ending its process."""
TIMED_OUT = "timeout"
"""Cancelled because it ran longer than its `timeout_s`."""
