"""The time limits of a step: `srun --time` and `--wait`."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from phalanx.adapters.slurm.options import OptionError
from phalanx.adapters.slurm.times import slurm_length
from phalanx.cli.allocation import LOOK_EVERY_S
from phalanx.cli.attached import Program
from phalanx.cli.table import say


class StepLimits:
    """Watches a step's time limits in threads. When a limit is reached, this process gets SIGTERM,
    and then ends the tasks.
    """

    def __init__(self, limit_s: float | None, wait_s: float | None) -> None:
        self._limit_s = limit_s
        self._wait_s = wait_s
        self._is_over = threading.Event()

    def watch(self, programs: Sequence[Program]) -> None:
        """Watch the step's programs until they have ended or a limit is reached."""
        if self._limit_s is not None:
            self._start(lambda: self._end_after(self._limit_s or 0.0, "its time is over"))
        if self._wait_s is not None:
            self._start(lambda: self._end_after_first(programs, self._wait_s or 0.0))

    def _start(self, run: Callable[[], None]) -> None:
        threading.Thread(target=run, daemon=True).start()

    def _end_after(self, seconds: float, why: str) -> None:
        if not self._is_over.wait(seconds):
            say(f"srun: error: the step ends: {why}", err=True)
            os.kill(os.getpid(), signal.SIGTERM)

    def _end_after_first(self, programs: Sequence[Program], seconds: float) -> None:
        while all(one.code is None for one in programs):
            if self._is_over.wait(LOOK_EVERY_S):
                return
        if any(one.code is None for one in programs):
            self._end_after(seconds, "its first task has ended (--wait)")

    def close(self) -> None:
        """Stop watching, because the step has ended."""
        self._is_over.set()


@contextmanager
def limits_of(asked: Mapping[str, str]) -> Iterator[StepLimits]:
    """Yield the limits that the options --time and --wait set, and stop watching them after the
    block. Raises OptionError.
    """
    wait = asked.get("wait", "0")
    if not wait.isdecimal():
        raise OptionError(f"--wait={wait}: it takes a number of seconds")
    try:
        limit = slurm_length(asked["time"]) if "time" in asked else None
    except ValueError as error:
        raise OptionError(f"--time={asked['time']}: {error}") from None
    limits = StepLimits(limit, float(wait) or None)
    try:
        yield limits
    finally:
        limits.close()
