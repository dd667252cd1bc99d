"""The system's clock and randomness. Engines pass them to the machines of the pure packages, which
have neither.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from phalanx.observe.log_lines import ERROR, INFO
from phalanx.runtime.os.daemon_log import LOG
from phalanx.runtime.os.own_time import own_time

if TYPE_CHECKING:
    import random


class SystemClock:
    """The clock of a head: its process's own time, the machine's steady clock, and the wall-clock
    time.
    """

    def now(self) -> float:
        """Return the process's own time, in seconds."""
        return own_time()

    def monotonic(self) -> float:
        """Return the seconds of the system's clock that never goes backwards."""
        return time.monotonic()

    def wall(self) -> float:
        """Return the wall-clock time, in seconds since the epoch."""
        return time.time()


def since_boot() -> float:
    """Return the seconds since this machine's boot, including those in which it was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Return the id of the machine's boot, from which `SystemClock.monotonic` counts; "" if
    unknown.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def unforeseeable() -> random.Random:
    """Return a random generator whose numbers cannot be predicted."""
    # Not imported at the top, because a fork server starts without it, and a command waits for that
    # start.
    import random
    import secrets

    return random.Random(secrets.randbits(64))


def log_defect(error: BaseException) -> None:
    """Log an internal error that must not end the process."""
    import traceback  # slow to import, and seldom needed

    say("".join(traceback.format_exception(error)).rstrip(), level=ERROR)


def say(text: str, *, level: str = INFO, job: str = "") -> None:
    """Write a line to the process's log. `job`: see LogRecord.

    If the disk is full, or if no process reads the log any more, the line is lost and the process
    continues.
    """
    LOG.write(text, level, job)
