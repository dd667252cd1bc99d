"""What a row of the benchmark is: a name, a unit, and how to take its samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from phalanx.bench.measure import Effort, rates

Api = Any
"""The module under test: `phalanx` or `ray`. Both have the same names, which is the point."""

Build = Callable[[Api], Callable[[], object]]
"""Sets the scene in a running session and gives the call to repeat."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table.

    `sample(api, effort)` gives the samples, in `unit`. `session` says whether a session is started
    before, with the options `init`. `peer` says whether the row also runs on the peer.
    `floors` names rows of plain work to hold this one against.
    """

    name: str
    unit: str
    sample: Callable[[Api, Effort], list[float]]
    group: str
    session: bool = True
    init: Mapping[str, Any] = field(default_factory=dict)
    peer: bool = True
    more_is_better: bool = True
    floors: tuple[str, ...] = ()


def loop(
    name: str,
    build: Build,
    *,
    per_call: float = 1,
    unit: str = "/s",
    init: Mapping[str, Any] | None = None,
    floors: tuple[str, ...] = (),
    warm_up_calls: int = 1,
) -> Row:
    """A row of Ray's microbenchmark: a call repeated, `per_call` units each.

    `warm_up_calls` is the least number of calls in the warm-up, for rows that become steady late.
    """

    def sample(api: Api, effort: Effort) -> list[float]:
        return rates(build(api), per_call=per_call, effort=effort, warm_up_calls=warm_up_calls)

    return Row(
        name=name,
        unit=unit,
        sample=sample,
        group="microbenchmark",
        init=init or {},
        floors=floors,
    )
