"""Judges whether an error that a reader gets is true, given the history of the work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from phalanx import errors
from phalanx.model.node_deaths import MOST
from phalanx.objects.failures import is_retriable
from phalanx_research.chaos.history import History
from phalanx_research.chaos.work import RAISED, RAISES, Raised, Work

Key = tuple[str, int]
"""A task or call, named by its owner and its number."""

DONE = "done"

_LOST_WORKER = (errors.WorkerCrashedError, errors.OutOfMemoryError)
_UNMAKEABLE = errors.ObjectReconstructionFailedError
_USED_UP = errors.ObjectReconstructionFailedMaxAttemptsExceededError


class Promise(msgspec.Struct, kw_only=True):
    """The observations of one task or call, from its submission to its outcome."""

    owner: str
    """The name of the process that submitted the work."""
    number: int
    what: str
    work: Work
    retries: int
    retry_exceptions: Any = False
    timeout_s: float | None = None
    since: float
    inputs: Sequence[Key] = ()
    """The work whose results are arguments of this work."""
    children: list[Key] = []
    """The tasks that this work has submitted."""
    is_call: bool = False
    starts: int = 0
    excused: int = 0
    """The number of starts that cost no retry, because the work was preempted before."""
    ran_on: list[str] = []
    finished_on: list[bytes] = []
    """The workers on which the work ran to its end."""
    last_attempt: int = 0
    """The number of the last attempt that was sent to a worker."""
    outcome: str = ""
    """DONE, or the name of the error's class; empty without an outcome."""
    was_made_again: bool = False
    """Whether the work was sent to a worker again after its end, because its results were lost."""
    is_cancelled: bool = False
    """Whether the work was cancelled before it had an outcome."""
    was_cancelled: bool = False
    """Whether the work was ever cancelled."""
    takes_put: bool = False
    """Whether the arguments contain objects that were put."""
    is_over: bool = False
    """Whether the stream of this work has ended. Items may still be unread."""
    is_abandoned: bool = False
    """Whether nobody will read the stream of this work to its end."""
    group: bytes | None = None
    node: str = ""
    """The node to which the task is bound; empty if it is not bound."""

    @property
    def has_tries_left(self) -> bool:
        """Whether the work may be retried after its last attempt."""
        return self.retries < 0 or self.last_attempt < self.retries


class Truth:
    """Judges reported errors by the recorded events."""

    def __init__(self, history: History, kept: dict[Key, Promise]) -> None:
        self._history = history
        self._kept = kept

    def is_true(self, promise: Promise, error: BaseException) -> bool:
        """Whether this failure of a task or call is possible after the recorded events."""
        return self.is_own(promise, error) or self._is_of_input(promise, error)

    def is_own(self, promise: Promise, error: BaseException) -> bool:
        """Whether this failure is possible for a reason other than the failure of an argument."""
        history = self._history
        match error:
            case Raised():
                return self._raised(promise)
            case errors.TaskCancelledError():
                return promise.was_cancelled
            case errors.TaskTimeoutError():
                return promise.timeout_s is not None
            case errors.WorkerCrashedError() if promise.was_cancelled:
                return True
            case errors.NodeDiedError():
                return promise.retries >= 0 and len(history.dead_nodes) >= MOST
            case _ if isinstance(error, _LOST_WORKER):
                was_disturbed = promise.ran_on or history.had_faults or history.dead_nodes
                is_removed = promise.group in history.removed_groups
                return not promise.has_tries_left and bool(was_disturbed or is_removed)
            case errors.TaskPlacementGroupRemoved():
                return promise.group in history.removed_groups
            case errors.TaskUnschedulableError():
                return promise.node in history.dead_nodes or promise.node in history.drained_nodes
            case errors.ActorError():
                return promise.is_call
            case errors.StoreFullError():
                return promise.is_call and history.had_full_disk
        return self._is_lost_for_good(promise, error)

    def _raised(self, promise: Promise) -> bool:
        ends = [promise.work.end_of(attempt) for attempt in range(promise.last_attempt + 1)]
        if is_retriable(promise.retry_exceptions, RAISED):
            is_last = promise.was_cancelled or not promise.has_tries_left
            return ends[-1] == RAISES and is_last
        # The reader of a stream may reach the stream's error after lost items were made again.
        return RAISES in ends

    def _is_lost_for_good(self, promise: Promise, error: BaseException) -> bool:
        """Whether a result existed, was lost, and cannot be made again."""
        if is_lost_put(error):
            return promise.takes_put
        if not promise.work.is_large:
            return False
        if type(error) is _USED_UP:
            # A run that could not start, because its arguments were missing, also cost a retry.
            return not promise.has_tries_left or bool(promise.inputs) or promise.takes_put
        if type(error) is _UNMAKEABLE:
            text = str(error)
            is_disabled = "may not run again" in text and promise.retries == 0
            if "was cancelled" in text:
                return promise.was_cancelled
            # A remembered task keeps no actor alive. So a task that got an actor's handle cannot
            # run again once the program has dropped the last handle.
            is_without_actor = "the last handle of its actor has gone" in text
            is_of_dead = "its actor is dead" in text and promise.is_call
            return is_disabled or is_of_dead or is_without_actor
        return False

    def _is_of_input(self, promise: Promise, error: BaseException) -> bool:
        """Whether this failure is the failure of an argument.

        Work that takes a failed argument fails with the argument's error. If that is a system
        error, the work fails with a task error whose cause is the system error.
        """
        told = {type(one): one for one in (error, getattr(error, "cause", None)) if one is not None}
        if promise.takes_put and any(map(is_lost_put, told.values())):
            return True
        for key in promise.inputs:
            source = self._kept[key]
            for kind, one in told.items():
                if source.outcome == kind.__name__ or self.is_true(source, one):
                    return True
        return False


def is_lost_put(error: BaseException) -> bool:
    """Return whether an error reports the loss of an object that `put` made: its file is gone."""
    return type(error) is _UNMAKEABLE and "it was put by process" in str(error)


def name_of(error: BaseException) -> str:
    """Return the name of an error's class, for display."""
    return "raised" if isinstance(error, Raised) else type(error).__name__
