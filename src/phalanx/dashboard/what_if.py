"""Works out what somebody supposes, in a process of its own with a limit: plans of large clusters
take seconds, and the page's process has others to answer."""

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
AT_ONCE = 2
"""Further questions are refused until one of these is answered."""
MEMORY_BYTES = 4 << 30
"""Of address space."""


class _Question(msgspec.Struct, kw_only=True):
    snapshot: bytes
    supposed: Supposition


class _Answer(msgspec.Struct, kw_only=True):
    found: Comparison | None = None
    wrong: str = ""


class WhatIf:
    """Asks such processes, a few at a time."""

    def __init__(self) -> None:
        self._under_way = 0

    async def ask(self, snapshot: bytes, supposed: Supposition) -> Comparison:
        """What would follow. Raises ValueError for what is wrong, with words for people, and
        TimeoutError where it takes too long, or others are worked out."""
        if self._under_way >= AT_ONCE:
            raise TimeoutError(f"{AT_ONCE} such questions are being worked out; ask again.")
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
                f"This takes longer than {PATIENCE_S:.0f} s. On the command line it may take as "
                "long as it takes."
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise TimeoutError("Working this out ended early; `phalanx what-if` says why.")
        answer = msgspec.msgpack.decode(said, type=_Answer)
        if answer.found is None:
            raise ValueError(answer.wrong)
        return answer.found


def main() -> None:
    """Answer one question: from the standard input to the standard output."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    question = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=_Question)
    try:
        (snapshot,) = read_snapshots(question.snapshot.decode(), known_plugins(), "the cluster")
        answer = _Answer(found=suppose(snapshot, question.supposed))
    except ValueError as error:
        answer = _Answer(wrong=str(error))
    except MemoryError:
        may_have = f"{MEMORY_BYTES >> 30} GiB"
        answer = _Answer(wrong=f"This takes more than the {may_have} that it may have.")
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))


if __name__ == "__main__":
    main()
