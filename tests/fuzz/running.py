"""Settings of the suites and their loop. In `make test` each suite tries the same fixed number of
seeds every time. With `PHALANX_FUZZ_S=3600` each suite runs for that many seconds, from seeds that
were not tried before.
"""

from __future__ import annotations

import itertools
import os
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

SECONDS = float(os.environ.get("PHALANX_FUZZ_S", "0"))
T = TypeVar("T")


def try_out(
    draw: Callable[[random.Random], list[T]], check: Callable[[list[T]], None], count: int
) -> None:
    """Draw a list from each of `count` seeds and call `check` with it; a timed run goes on until
    its time is over.

    A list that fails is shortened before it is reported. A run that is not timed stops at the first
    list that fails. A timed run reports one list for each place in the code that raised an error.
    """
    found: dict[str, list[Any]] = {}
    often: Counter[str] = Counter()
    until = time.monotonic() + SECONDS
    first = random.SystemRandom().randrange(1 << 40) if SECONDS else 0
    for seed in itertools.count(first):
        if time.monotonic() > until if SECONDS else seed == count:
            break
        drawn = draw(random.Random(seed))
        place = _fails(check, drawn)
        if place:
            often[place] += 1
            found.setdefault(place, [seed, drawn])
            if not SECONDS:
                break
    if SECONDS:
        print(f"\n{check.__qualname__}: {seed - first} examples, {dict(often)}")
    for place, (seed, drawn) in found.items():
        least = _shrunk(check, drawn, place)
        print(
            f"\n---- seed {seed}: {place}, {often[place]} times\n"
            + "\n".join(f"{one!r:.1500}" for one in least)
        )
        try:
            check(least)
        except Exception:
            traceback.print_exc()
    assert not found, f"{len(found)} kinds of failures: {list(found)}"


def _fails(check: Callable[[list[T]], None], drawn: list[T]) -> str:
    """Return the error and the place where `check` raised it; empty if it did not raise."""
    try:
        check(drawn)
    except Exception as error:
        while error.__cause__ is not None:
            error = error.__cause__  # type: ignore[assignment]
        frames = traceback.extract_tb(error.__traceback__)
        last = ([f for f in frames if "/src/phalanx/" in f.filename] or frames)[-1]
        return f"{type(error).__name__} {Path(last.filename).name}:{last.lineno}"
    return ""


def _shrunk(check: Callable[[list[T]], None], drawn: list[T], place: str) -> list[T]:
    for index in reversed(range(len(drawn))):
        fewer = drawn[:index] + drawn[index + 1 :]
        if _fails(check, fewer) == place:
            drawn = fewer
    return drawn
