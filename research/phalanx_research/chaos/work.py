"""The behaviour of simulated tasks and calls, set by their arguments, and the form of their
values.
"""

from __future__ import annotations

import pickle

import msgspec

RETURNS, RAISES, DIES = "returns", "raises", "dies"


Outcome = bytes | BaseException
"""The result that a reader gets."""


class Raised(Exception):
    """The error that simulated tasks raise."""


class OtherError(Exception):
    """An error that no simulated task raises."""


RAISED = pickle.dumps(("task", "f", "Raised", pickle.dumps(Raised(), 5), 1, None), 5)
"""A task's exception as `objects.failures` writes it, the same in every run."""


class Work(msgspec.Struct, array_like=True, kw_only=True):
    """One task or call: it takes time, then returns, raises, or ends its process."""

    seconds: float
    ends: str = RETURNS
    bad_attempts: int = -1
    """The number of first attempts that end like that, before later ones return; -1: all of
    them.
    """
    items: int = 0
    """The number of values that a generator yields."""
    is_large: bool = False
    """Whether its values are files."""
    is_stubborn: bool = False
    """Whether it continues when it is interrupted."""
    children: int = 0
    """The number of tasks that it submits and waits for."""
    reads: bool = False
    """Whether it reads the objects to which its argument refers, or that its actor keeps."""
    keeps: bool = False
    """Whether its actor keeps the references in its argument from now on, and no others."""
    cancels: bool = False
    """Whether it cancels the work whose results its argument refers to."""
    gives: int = 0
    """The number of its own process's objects to which its value refers."""
    members: list[Work] = []
    """The work of each member of a gang."""

    def of(self, number: int) -> Work:
        """Return the work of task `number`. Members of a gang have consecutive numbers."""
        return self.members[number % len(self.members)] if self.members else self

    def end_of(self, attempt: int) -> str:
        """Return how this attempt, counted from 0, ends."""
        return self.ends if self.bad_attempts < 0 or attempt < self.bad_attempts else RETURNS


class Label(msgspec.Struct, array_like=True, frozen=True):
    """A simulated value: it names its object and its maker."""

    owner: bytes
    number: int
    """The object's number."""
    maker: bytes
    """The process that made the value."""
    attempt: int = 0

    def encode(self) -> bytes:
        """Return the value's bytes."""
        return msgspec.msgpack.encode(self)


def read_label(value: bytes) -> Label:
    """Return the label in a value's bytes."""
    return msgspec.msgpack.decode(value, type=Label)
