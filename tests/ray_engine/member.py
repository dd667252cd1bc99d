"""A member of a job under faults: `member.py DIRECTORY SIZE CODE`, run as a file.

It takes locks that no two processes may hold: one for itself, one for each of its devices. The
kernel releases the locks of a process when the process has ended, and never before. The member then
waits until all SIZE members of its job either run at the same time or have ended, and until the
test lets the job go on. It exits with CODE. It appends its observations to the file `events`, as
words: its job, its index, its attempt, and what happened.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import time
from pathlib import Path

LOOK_EVERY_S = 0.1
_LOCK = "hhqqi4x"


def main(directory: str, size: str, code: str) -> None:
    here = Path(directory)
    job, index = os.environ["PHALANX_JOB"], int(os.environ["PHALANX_TASK_INDEX"])
    events = os.open(here / "events", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tell(*words: str) -> None:
        line = " ".join((job, str(index), os.environ["PHALANX_ATTEMPT"], *words))
        os.write(events, f"{line}\n".encode())

    def take(name: str) -> None:
        lock = os.open(here / name, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            tell("twice", name)

    take(f"{job}-{index}")
    node = os.environ["PHALANX_NODE"][12:]  # what a node's ids have in common when it joins again
    for device in os.environ["CUDA_VISIBLE_DEVICES"].split(","):
        take(f"{node}-{device}")
    tell("began")
    others = [here / f"{job}-{other}" for other in range(int(size)) if other != index]
    while not all(_is_there(other) for other in others):
        time.sleep(LOOK_EVERY_S)
    tell("met")
    while not (here / f"{job}-go").exists():
        time.sleep(LOOK_EVERY_S)
    (here / f"{job}-{index}-ended").touch()
    tell("ended")
    sys.exit(int(code))


def _is_there(member: Path) -> bool:
    """Whether some process holds the member's lock, or the member has ended."""
    if Path(f"{member}-ended").exists():
        return True
    try:
        lock = os.open(member, os.O_RDWR)
    except FileNotFoundError:
        return False
    wanted = struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, *_ = struct.unpack(_LOCK, fcntl.fcntl(lock, fcntl.F_GETLK, wanted))
    os.close(lock)
    return bool(kind != fcntl.F_UNLCK)


if __name__ == "__main__":
    main(*sys.argv[1:])
