"""A typed program, checked by mypy in strict mode and never run."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import phalanx
from phalanx import ObjectRef
from phalanx.actor import ActorClass, ActorHandle, ActorProxy, typed


@phalanx.remote
def add(a: int, b: int) -> int:
    return a + b


@phalanx.remote(num_cpus=0.5)
def halve(value: int) -> float:
    return value / 2


@phalanx.remote(num_returns=2)
def both(value: int) -> tuple[int, int]:
    return value, -value


@phalanx.remote
def count(to: int) -> Generator[str, None, None]:
    yield str(to)


@phalanx.remote
def read(name: str) -> Any:
    return name


@phalanx.remote
def scaled(value: int, by: int = 1, *, offset: float = 0.0) -> float:
    return value * by + offset


@phalanx.remote
def total(*values: int) -> int:
    return sum(values)


class Counter:
    def __init__(self, start: int = 0) -> None:
        self.value = start

    def increment(self, by: int) -> int:
        return by


class Meter:
    def __init__(self, unit: str) -> None:
        self.unit = unit

    @phalanx.method
    def read(self, times: int) -> list[float]:
        return [self.last()] * times

    @phalanx.method(concurrency_group="io")
    def last(self) -> float:
        return 0.0

    @phalanx.method
    async def later(self, after_s: float) -> str:
        return self.unit

    @phalanx.method
    def stream(self, count: int) -> Generator[float, None, None]:
        yield from self.read(count)

    @phalanx.method(num_returns=2)
    def both(self) -> tuple[float, str]:
        return self.last(), self.unit


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
    half: ObjectRef[float] = halve.remote(1)
    more: float = phalanx.get(halve.options(num_cpus=1).remote(3))
    plus, minus = both.remote(1)
    one, two = add.options(num_returns=2).remote(1, 2)
    phalanx.get([half, plus, minus, one, two])
    counter = phalanx.remote(Counter).remote()
    phalanx.get(counter.increment.remote(1))
    Other = phalanx.remote(num_cpus=2)(Counter)
    other: ActorHandle[Counter] = Other.options(name="other").remote()
    phalanx.get(other.increment.remote(int(more)))
    calls: list[ObjectRef[float]] = [
        scaled.remote(1),
        scaled.remote(ref, by=2),
        scaled.remote(1, ref, offset=0.5),
        scaled.remote(ref, ref),
        scaled.options(num_cpus=2).remote(1, offset=1),
    ]
    phalanx.get(calls)
    phalanx.get([total.remote(1, 2, 3), total.remote(*sums), total.remote(*[ref, ref])])
    phalanx.get(total.remote(ref, ref, ref, ref, ref, ref))
    return first + sum(sums) + len(words) + stored["a"]


async def wait_for_it() -> int:
    return await add.remote(1, 2)


def meters() -> str:
    Remote: ActorClass[Meter] = phalanx.remote(num_cpus=0)(Meter)
    meter = typed(phalanx.remote(Meter).remote("V"))
    values: list[float] = phalanx.get(meter.read.remote(2))
    text: str = phalanx.get(meter.later.remote(phalanx.put(1.0)))
    streamed: list[float] = [phalanx.get(item) for item in meter.stream.remote(2)]
    value, unit = phalanx.get(meter.both.options(num_returns=2).remote())
    watch(Remote.remote("A"))
    watch(meter)
    phalanx.kill(meter)
    return f"{values} {text} {streamed} {value} {unit}"


def watch(meter: ActorProxy[Meter]) -> ObjectRef[float]:
    last: ObjectRef[float] = meter.last.remote()
    return last
