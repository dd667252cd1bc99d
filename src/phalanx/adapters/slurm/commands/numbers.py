"""Numbers of jobs. Programs for Slurm expect jobs to have numbers, so jobs that they submit have a
number as their name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable

from phalanx.cli.reach import ask, fail
from phalanx.model.jobs.arrays import split_element
from phalanx.model.jobs.spec import JobSpec
from phalanx.protocol.requests.jobs import ListJobColumns

_LONGEST = 15


def is_number(name: str) -> bool:
    """Whether a job's name is a number."""
    return name.isdecimal() and name.isascii() and len(name) <= _LONGEST


def array_task_or_job(name: str) -> str:
    """Return the name for Slurm's id: 12[7] for 12_7, 12[3-5] for 12_[3-5]."""
    array, is_element, index = name.partition("_")
    index = index.removeprefix("[").removesuffix("]")
    return f"{array}[{index}]" if is_element and array.isdecimal() and index else name


def slurm_id(name: str) -> str:
    """Return Slurm's id for a name: 12_7 for 12[7]."""
    element = split_element(name)
    return name if element is None else "_".join(element)


def with_number(address: str | None, submit: Callable[[int], JobSpec]) -> JobSpec:
    """Submit a job under a new number, and return the result of `submit`. A number is new if this
    user has not used it, and if no known job of the cluster has it. Only one command of a user at a
    time chooses a number.
    """
    directory = os.path.join(os.path.expanduser("~"), ".phalanx")
    path = os.path.join(directory, "slurm-job-number")
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, mode=0o700)
        with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            written = file.read(_LONGEST + 1).strip()
            (known,) = ask(address, ListJobColumns(["name"])).columns
            last = max([int(name) for name in (*known, written) if is_number(name)], default=0)
            spec = submit(last + 1)
            file.seek(0)
            file.truncate()
            file.write(f"{last + 1}\n")
            return spec
    except OSError as error:
        fail(f"{path}: {error.strerror}")
