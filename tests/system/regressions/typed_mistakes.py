"""Calls that a type checker must refuse. If one is accepted, mypy reports its `type: ignore`
comment as unused.
"""

from __future__ import annotations

from tests.system.regressions.typed_program import (
    Counter,
    Meter,
    add,
    both,
    count,
    halve,
    read,
    scaled,
)

import phalanx
from phalanx import ObjectRef
from phalanx.actor import ActorProxy, typed


def functions(ref: ObjectRef[int]) -> None:
    add.remote("1", 2)  # type: ignore[call-overload]
    add.remote(1)  # type: ignore[call-overload]
    add.remote(1, 2, 3)  # type: ignore[call-overload]
    add.remote(1, c=2)  # type: ignore[call-overload]
    add.remote(ref, "2")  # type: ignore[call-overload]
    add.remote(ref)  # type: ignore[call-overload]
    halve.remote("1")  # type: ignore[call-overload]
    halve.options(num_cpus=1).remote("1")  # type: ignore[call-overload]
    scaled.remote(1, offset="0")  # type: ignore[call-overload]
    both.remote("1")  # type: ignore[call-overload]
    both.options(num_returns=2).remote("1")  # type: ignore[call-overload]
    count.remote("3")  # type: ignore[call-overload]
    read.remote(1)  # type: ignore[call-overload]
    add.remote(1, 2) + 1  # type: ignore[operator]


def actors(meter: ActorProxy[Meter]) -> None:
    phalanx.remote(Counter).remote("0")  # type: ignore[arg-type]
    phalanx.remote(Counter).options(num_cpus=1).remote(0, 1)  # type: ignore[call-arg]
    phalanx.remote(num_cpus=1)(Meter).remote()  # type: ignore[call-arg]
    meter.read.remote("2")  # type: ignore[call-overload]
    meter.last.remote(1)  # type: ignore[call-overload]
    known = typed(phalanx.remote(Meter).remote("V"))
    known.read.options(concurrency_group="io").remote()  # type: ignore[call-overload]
    known.stream.remote(count="2")  # type: ignore[call-overload]
    known.later.remote("soon")  # type: ignore[call-overload]
    known.nothing.remote()  # type: ignore[union-attr]
