"""The invariants of objects: each reader gets the right value, or a true error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from phalanx.errors import OwnerDiedError
from phalanx.model.ids import INDEX_BITS, PREFIX_BYTES
from phalanx.objects.reference import ObjectRef
from phalanx_research.chaos.broken import Broken
from phalanx_research.chaos.history import History
from phalanx_research.chaos.network import Network
from phalanx_research.chaos.truth import Key, Promise, Truth, is_lost_put, name_of
from phalanx_research.chaos.work import Outcome, read_label


class Reader(Protocol):
    """A process that reads objects."""

    name: str

    @property
    def process_id(self) -> bytes:
        """The process's id."""
        ...


class Reads:
    """Checks reads, and knows all readers that wait for values."""

    def __init__(
        self, network: Network, history: History, kept: Mapping[Key, Promise], truth: Truth
    ) -> None:
        """`kept` checks the invariants of the work that makes objects. `truth` judges errors."""
        self._network = network
        self._history = history
        self._kept = kept
        self._truth = truth
        self._open: dict[int, tuple[Reader, ObjectRef[Any]]] = {}
        self._count = 0

    def begins(self, process: Reader, ref: ObjectRef[Any]) -> int:
        """Record that a process waits for a value. Returns a number for `ends`."""
        self._count += 1
        self._open[self._count] = (process, ref)
        return self._count

    def ends(self, read: int, outcome: Outcome) -> None:
        """Record that the reader has got the value or an error."""
        process, ref = self._open.pop(read)
        self.on_read(process, ref, outcome)

    def on_read(self, process: Reader, ref: ObjectRef[Any], outcome: Outcome) -> None:
        """Check that a process has read the right object, or a true error."""
        self._history.count("reads")
        if isinstance(outcome, BaseException):
            self._check_error(process, ref, outcome)
            return
        label = read_label(outcome)
        if (label.owner, label.number) != (ref._owner, ref._number):
            raise Broken(
                f"{process.name} reads object {ref._number:x} of "
                f"{self._history.name_of(ref._owner)} and gets {label}",
                [process.name],
            )

    def _check_error(self, process: Reader, ref: ObjectRef[Any], error: BaseException) -> None:
        if self._history.is_dead(process.process_id[:PREFIX_BYTES]):
            return  # owners have released its objects, as it is about to end
        owner = self._history.name_of(ref._owner)
        if isinstance(error, OwnerDiedError):
            is_true = self._history.had_faults or not self._is_running(ref._owner)
        else:
            promise = self._kept.get((owner, ref._number >> INDEX_BITS))
            if promise is None:
                is_true = is_lost_put(error)
            else:
                is_true = promise.outcome == name_of(error) or self._truth.is_true(promise, error)
        if not is_true:
            raise Broken(
                f"{process.name} reads object {ref._number:x} of {owner} and gets "
                f"{name_of(error)} for no good reason: {error}",
                [process.name, owner],
            )

    def _is_running(self, process: bytes) -> bool:
        """Whether a process is alive, and the head has not declared its node dead."""
        if self._history.is_dead(process[:PREFIX_BYTES]):
            return False
        host = self._network.host_of(process)
        return host is not None and self._network.find_process(host, process) is not None

    def process_ended(self, process: Reader) -> None:
        """Record that a process has ended, and no longer waits for anything."""
        self._open = {n: read for n, read in self._open.items() if read[0] is not process}

    @property
    def are_open(self) -> bool:
        """Whether any process waits for a value."""
        return bool(self._open)

    def check_none_open(self, waited_s: float) -> None:
        """Raise Broken if a process still waits. `waited_s` is the time since the last fault."""
        for process, ref in self._open.values():
            owner = self._history.name_of(ref._owner)
            raise Broken(
                f"{process.name} waits for object {ref._number:x} of {owner} {waited_s:.0f} s "
                "after the last fault",
                [process.name, owner],
            )
