"""The future of a call that runs as a task."""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from phalanx.api.objects import cancel, withdraw
from phalanx.errors import TaskCancelledError, WorkerCrashedError


class LostProcessError(BrokenProcessPool, WorkerCrashedError):
    """Raised when the process of a call has ended in each of the call's allowed attempts. Other
    calls are not affected: the executor continues with other processes.
    """


class TaskFuture(Future[Any]):
    """The future of a task. Unlike a thread's future, it can be cancelled while the task runs."""

    ref: Any = None
    """The task's reference, while the task runs."""
    _is_withdrawn = False

    def cancel(self) -> bool:
        """Drop the task if it has not begun, or interrupt it if it runs. Returns False if the task
        has ended.
        """
        if self.cancelled():
            return True
        ref = self.ref
        if not super().cancel():
            return False
        self.set_running_or_notify_cancel()
        if ref is not None:
            cancel(ref)
        return True

    def withdraw(self) -> bool:
        """Cancel the task unless a worker has it. Returns whether it was cancelled."""
        ref = self.ref
        if ref is None:
            return self.cancel()
        self._is_withdrawn = True
        if withdraw(ref):
            return self.cancel()
        self._is_withdrawn = False
        return False

    def set_exception(self, exception: BaseException | None) -> None:
        """Set the future's error. If the task was withdrawn, cancel the future instead. The error
        of a crashed worker becomes a LostProcessError.
        """
        if self._is_withdrawn and isinstance(exception, TaskCancelledError):
            self.cancel()
            return
        if isinstance(exception, WorkerCrashedError) and not isinstance(
            exception, TaskCancelledError
        ):
            exception = LostProcessError(str(exception))
        super().set_exception(exception)
