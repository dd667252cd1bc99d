"""What-if comparisons in separate processes with limits.

The plan of a large cluster takes seconds, and the page's process must answer during this time.
"""

from __future__ import annotations

import asyncio
import resource
import sys

import msgspec

from phalanx.head.jobs.what_if import Supposition, suppose
from phalanx.scheduler.cycle.reading import read_snapshots
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.forecast.what_if import Comparison

PATIENCE_S = 30.0
"""The most seconds that a comparison may take."""
AT_ONCE = 2
"""The most comparisons at a time. Further comparisons are refused."""
MEMORY_BYTES = 4 << 30
"""The most bytes of address space that a process may use."""


class _Question(msgspec.Struct, kw_only=True):
    snapshot: bytes
    supposed: Supposition


class _Answer(msgspec.Struct, kw_only=True):
    found: Comparison | None = None
    wrong: str = ""


class WhatIf:
    """Runs up to AT_ONCE comparisons at a time, each in a separate process."""

    def __init__(self) -> None:
        self._under_way = 0

    async def ask(self, snapshot: bytes, supposed: Supposition) -> Comparison:
        """Return the comparison of the present plan with the plan after the change.

        Raises ValueError with a message for display if the change is invalid, and TimeoutError if
        the comparison takes too long, or if AT_ONCE others are running.
        """
        if self._under_way >= AT_ONCE:
            raise TimeoutError(f"{AT_ONCE} comparisons are under way; try again later.")
        self._under_way += 1
        try:
            return await self._ask(snapshot, supposed)
        finally:
            self._under_way -= 1

    async def _ask(self, snapshot: bytes, supposed: Supposition) -> Comparison:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", __name__,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        question = msgspec.msgpack.encode(_Question(snapshot=snapshot, supposed=supposed))
        try:
            said, _ = await asyncio.wait_for(process.communicate(question), PATIENCE_S)
        except TimeoutError:
            raise TimeoutError(
                f"The comparison takes longer than {PATIENCE_S:.0f} s. `phalanx what-if` has no "
                "time limit."
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise TimeoutError("The comparison ended early; `phalanx what-if` shows why.")
        answer = msgspec.msgpack.decode(said, type=_Answer)
        if answer.found is None:
            raise ValueError(answer.wrong)
        return answer.found


def main() -> None:
    """Answer one question: read it from standard input, write the answer to standard output."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    question = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=_Question)
    try:
        (snapshot,) = read_snapshots(question.snapshot.decode(), known_plugins(), "the cluster")
        answer = _Answer(found=suppose(snapshot, question.supposed))
    except ValueError as error:
        answer = _Answer(wrong=str(error))
    except MemoryError:
        may_have = f"{MEMORY_BYTES >> 30} GiB"
        answer = _Answer(wrong=f"The comparison needs more than its limit of {may_have}.")
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))


if __name__ == "__main__":
    main()
