"""What simulated tasks and calls do, as their arguments say, and what their values look like."""

from __future__ import annotations

import pickle

import msgspec

RETURNS, RAISES, DIES = "returns", "raises", "dies"


Outcome = bytes | BaseException
"""What a reader gets."""


class Raised(Exception):
    """What simulated tasks raise."""


class OtherError(Exception):
    """What no simulated task raises."""


RAISED = pickle.dumps(("task", "f", "Raised", pickle.dumps(Raised(), 5), 1, None), 5)
"""The exception of a task as `objects.failures` writes it, the same in every run."""


class Work(msgspec.Struct, array_like=True, kw_only=True):
    """One task or call. It takes so long, then returns, raises, or takes its process along."""

    seconds: float
    ends: str = RETURNS
    bad_attempts: int = -1
    """So many first attempts end like that, the next ones return; -1: all end like that."""
    items: int = 0
    """How many values a generator gives."""
    is_large: bool = False
    """Whether its values are files."""
    is_stubborn: bool = False
    """Whether it goes on when it is interrupted."""
    children: int = 0
    """So many tasks are submitted by it, and waited for."""
    reads: bool = False
    """Whether it reads the objects that its argument refers to, or that its actor keeps."""
    keeps: bool = False
    """Whether its actor keeps the references in its argument from now on, and none other."""
    cancels: bool = False
    """Whether it cancels the work whose results its argument refers to."""
    gives: int = 0
    """Its value refers to so many objects of its own process."""
    members: list[Work] = []
    """Of a gang: what each member does instead."""

    def of(self, number: int) -> Work:
        """What task `number` does. Members of a gang have consecutive numbers."""
        return self.members[number % len(self.members)] if self.members else self

    def end_of(self, attempt: int) -> str:
        """How this attempt ends, counted from 0."""
        return self.ends if self.bad_attempts < 0 or attempt < self.bad_attempts else RETURNS


class Label(msgspec.Struct, array_like=True, frozen=True):
    """A simulated value: it says which object it is of, and who made it."""

    owner: bytes
    number: int
    """Of the object."""
    maker: bytes
    """The process that made it."""
    attempt: int = 0

    def encode(self) -> bytes:
        """The value's bytes."""
        return msgspec.msgpack.encode(self)


def read_label(value: bytes) -> Label:
    """The label in a value's bytes."""
    return msgspec.msgpack.decode(value, type=Label)
