"""Runs the programs that start and end the machines of pools. A program gets its request as JSON on
standard input, and prints names of nodes, one in each line.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from phalanx.cli.provisioning.pools import Pool

_SHOWN_BYTES = 2000


class Outcome(NamedTuple):
    """The requested names that a program printed, and the reason why the program failed; "" if it
    did not fail.
    """

    names: tuple[str, ...]
    failure: str


def run(pool: Pool, program: Sequence[str], names: Sequence[str], head: str) -> Outcome:
    """Run a program for these nodes, and wait for its end. `head`: HOST:PORT of the head.

    A program that runs longer than the pool's limit is killed, together with its process group.
    """
    request = json.dumps(
        {"pool": pool.name, "names": list(names), "head": head, "resources": pool.resources}
    )
    try:
        process = subprocess.Popen(
            list(program),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return Outcome((), f"{program[0]} cannot be run: {error.strerror}")
    late = ""
    try:
        out, problems = process.communicate(request.encode(), timeout=pool.limit_s)
    except subprocess.TimeoutExpired:
        late = f"{program[0]} has not ended within {pool.limit_s:g} s"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        out, problems = process.communicate()
    known = set(names)
    printed = (line.strip() for line in out.decode("utf-8", "replace").splitlines())
    done = tuple(dict.fromkeys(name for name in printed if name in known))
    if late or process.returncode:
        return Outcome(done, late or _failure(program[0], process.returncode, problems))
    return Outcome(done, "")


def _failure(program: str, code: int, problems: bytes) -> str:
    said = problems[-_SHOWN_BYTES:].decode("utf-8", "replace").strip()
    ended = f"exit code {code}" if code > 0 else f"signal {-code}"
    return f"{program} failed ({ended})" + (f": {said}" if said else "")
