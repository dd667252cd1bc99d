"""The memory of a session: of the driver, and of all processes that it has started.

PSS divides each shared page among the processes that have it mapped, so the PSS of several
processes can be added. USS counts only the pages that no other process has mapped.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

import psutil

MIB = 1024 * 1024
_MARK = "PHALANX_BENCH_SESSION"


def mark() -> None:
    """Mark the processes that this process starts from now on. Their own children have the mark,
    too.
    """
    os.environ[_MARK] = str(os.getpid())


def processes() -> list[int]:
    """Return this process and all marked processes."""
    wanted = f"{_MARK}={os.getpid()}".encode()
    return [os.getpid(), *(pid for pid in psutil.pids() if wanted in _environment(pid))]


def _environment(pid: int) -> Collection[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ()


def pss(pids: Collection[int]) -> float:
    """Return the PSS of these processes together, in MiB. Processes that have ended count 0."""
    return sum(_rollup(pids, "Pss:")) / MIB


def uss(pid: int) -> float:
    """Return the private memory of a process, in MiB."""
    return (sum(_rollup([pid], "Private_Clean:")) + sum(_rollup([pid], "Private_Dirty:"))) / MIB


def _rollup(pids: Collection[int], field: str) -> Iterator[int]:
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        yield from (int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
