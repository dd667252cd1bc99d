"""The machine's clock and randomness, as every engine hands them to machines that know neither."""

from __future__ import annotations

import random
import secrets
import time
import traceback

from phalanx.observe.log_lines import ERROR, INFO
from phalanx.runtime.os.daemon_log import LOG
from phalanx.runtime.os.own_time import own_time


class SystemClock:
    """See `phalanx.head.clock.Clock`."""

    def now(self) -> float:
        """See Clock."""
        return own_time()

    def wall(self) -> float:
        """See Clock."""
        return time.time()


def boot_id() -> str:
    """Names this boot of the machine, from which `SystemClock.now` counts; "" where Linux does not
    say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def unforeseeable() -> random.Random:
    """A source of randomness that nobody foresees."""
    return random.Random(secrets.randbits(64))


def log_defect(error: BaseException) -> None:
    """Show an error of ours that must not end the process."""
    say("".join(traceback.format_exception(error)).rstrip(), level=ERROR)


def say(text: str, *, level: str = INFO, job: str = "") -> None:
    """Something that a person who reads the process's log wants to know; `job`: see LogRecord. A
    log on a full disk, or one that nobody reads any more, must not end the process."""
    LOG.write(text, level, job)
