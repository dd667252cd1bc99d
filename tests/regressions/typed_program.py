"""A typed program, checked by mypy in strict mode and never run."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import phalanx
from phalanx import ObjectRef


@phalanx.remote
def add(a: int, b: int) -> int:
    return a + b


@phalanx.remote
def count(to: int) -> Generator[str, None, None]:
    yield str(to)


@phalanx.remote
def read(name: str) -> Any:
    return name


class Counter:
    def increment(self, by: int) -> int:
        return by


def main() -> int:
    ref: ObjectRef[int] = add.remote(1, 2)
    sums: list[int] = phalanx.get([add.remote(i, ref) for i in range(3)])
    ready, waiting = phalanx.wait([ref], timeout=1.0)
    first: int = phalanx.get((ready + waiting)[0])
    words: list[str] = [phalanx.get(item) for item in count.remote(3)]
    stored: dict[str, int] = phalanx.get(phalanx.put({"a": 1}))
    anything: list[ObjectRef[Any]] = [read.remote("a"), ref]
    phalanx.get(anything, timeout=1.0)
    phalanx.get(read.remote("b"))
    counter = phalanx.remote(Counter).remote()
    phalanx.get(counter.increment.remote(1))
    return first + sum(sums) + len(words) + stored["a"]


async def wait_for_it() -> int:
    return await add.remote(1, 2)
