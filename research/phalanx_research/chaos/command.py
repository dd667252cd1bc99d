"""Runs seeds for `phalanx simulate --chaos`, and prints the results and the events of a failure."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from phalanx.errors import PhalanxError
from phalanx_research.chaos.run import Result, try_seed
from phalanx_research.chaos.story import line

Write = Callable[[str], None]


class SeedsError(PhalanxError, ValueError):
    """Raised for invalid seeds."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The command's options."""

    seeds: Sequence[int]
    as_json: bool = False
    trace: Path | None = None
    """The file to which every event of the run is written, one per line. Only allowed for a single
    seed.
    """
    verbose: bool = False


def seeds_of(seed: int, seeds: str | None) -> Sequence[int]:
    """Return the seeds to run. `seeds` is the number of seeds, counted from `seed`, or a range A-B
    that includes both ends. With None, only `seed` is run. Raises SeedsError for any other text.
    """
    if seeds is None:
        return range(seed, seed + 1)
    first, dash, last = seeds.partition("-")
    if first.isdecimal() and not dash and int(first):
        return range(seed, seed + int(first))
    if first.isdecimal() and last.isdecimal() and int(first) <= int(last):
        return range(int(first), int(last) + 1)
    raise SeedsError(f"--seeds is a count, as 100, or a range, as 1-100; not {seeds!r}")


def run(request: Request, *, write: Write) -> bool:
    """Run all seeds. Returns whether every invariant held for every seed."""
    if (request.trace is not None or request.verbose) and len(request.seeds) != 1:
        raise SeedsError("--trace and --verbose are for a single run: give --seed without --seeds")
    results = []
    for seed in request.seeds:
        result, world = try_seed(seed)
        results.append(result)
        lines = (line(event) for event in world.kernel.story)
        if request.trace is not None:
            request.trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
        elif request.verbose:
            for text in lines:
                write(text)
        if not request.as_json:
            _print(result, write)
    is_good = not any(result.broken for result in results)
    if request.as_json:
        rows = [result.facts() for result in results]
        write(json.dumps(rows[0] if len(rows) == 1 else rows, indent=1))
    elif len(results) > 1:
        failed = [str(result.seed) for result in results if result.broken]
        write(
            f"{len(results)} seeds, {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}"
        )
    return is_good


def _print(result: Result, write: Write) -> None:
    faults = ", ".join(f"{count} {kind}" for kind, count in sorted(result.faults.items()))
    write(
        f"seed {result.seed}: {'FAILED' if result.broken else 'ok'}, digest {result.digest}, "
        f"{result.simulated_s:g} s simulated, {result.events} events, {result.promised} tasks and "
        f"calls; faults: {faults or 'none'}"
    )
    if result.broken:
        for text in result.story:
            write(text)
        write(f"Broken: {result.broken}")
        write(f"Again:  {result.replay}")
