"""The behaviour of simulated tasks and calls, which their arguments set, and the form of their
values.
"""

from __future__ import annotations

import pickle

import msgspec

RETURNS, RAISES, DIES = "returns", "raises", "dies"


Outcome = bytes | BaseException
"""The value or the error that a reader gets."""


class Raised(Exception):
    """The error that simulated tasks raise."""


class OtherError(Exception):
    """An error that no simulated task raises."""


RAISED = pickle.dumps(("task", "f", "Raised", pickle.dumps(Raised(), 5), 1, None), 5)
"""A task's exception in the encoding of `objects.failures`. It is the same in every run."""


class Work(msgspec.Struct, array_like=True, kw_only=True):
    """Instructions for one task or call: it takes time, and then returns, raises an error, or ends
    its process.
    """

    seconds: float
    ends: str = RETURNS
    bad_attempts: int = -1
    """The number of first attempts that end as `ends` says; later attempts return. With -1, all
    attempts end as `ends` says.
    """
    items: int = 0
    """The number of values that a generator yields."""
    is_large: bool = False
    """Whether the values are large, so that they are stored in files."""
    is_stubborn: bool = False
    """Whether the code continues when it is interrupted."""
    children: int = 0
    """The number of tasks that the code submits and waits for."""
    reads: bool = False
    """Whether the code reads the objects to which its argument refers, or which its actor keeps."""
    keeps: bool = False
    """Whether the actor keeps the references in the argument from now on, and drops earlier
    references.
    """
    cancels: bool = False
    """Whether the code cancels the work to whose results the argument refers."""
    gives: int = 0
    """The number of objects of the worker to which the returned value refers."""
    members: list[Work] = []
    """The work of each member of a gang."""

    def of(self, number: int) -> Work:
        """Return the work of task `number`. Members of a gang have consecutive numbers."""
        return self.members[number % len(self.members)] if self.members else self

    def end_of(self, attempt: int) -> str:
        """Return how an attempt ends. Attempts are counted from 0."""
        return self.ends if self.bad_attempts < 0 or attempt < self.bad_attempts else RETURNS


class Label(msgspec.Struct, array_like=True, frozen=True):
    """A simulated value. It contains the number of its object and the process that made it."""

    owner: bytes
    number: int
    """The number of the object."""
    maker: bytes
    """The process that made the value."""
    attempt: int = 0

    def encode(self) -> bytes:
        """Return the value's bytes."""
        return msgspec.msgpack.encode(self)


def read_label(value: bytes) -> Label:
    """Return the label in a value's bytes."""
    return msgspec.msgpack.decode(value, type=Label)
