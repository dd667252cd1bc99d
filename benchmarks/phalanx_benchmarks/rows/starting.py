"""Rows of the time until a program can work: the start of a session, the first task, and actors
that answer.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

from phalanx_benchmarks.measure import Effort, rates, seconds
from phalanx_benchmarks.row import Api, Row, start
from phalanx_benchmarks.rows.tasks import small_task


def _init(api: Api, effort: Effort) -> list[float]:
    return seconds(lambda: start(api), times=effort.repetitions, after=api.shutdown)


def _first_task(api: Api, effort: Effort) -> list[float]:
    samples: list[float] = []
    for _ in range(effort.repetitions):
        start(api)
        samples += seconds(lambda: api.get(small_task(api).remote()), times=1)
        api.shutdown()
    return samples


def _cold_start(api: Api, effort: Effort) -> list[float]:
    program = (
        f"import {api.__name__} as api; api.init(include_dashboard=False); "
        "print(api.get(api.remote(lambda: 'answered').remote()), flush=True)"
    )
    samples: list[float] = []
    for _ in range(effort.repetitions):
        began = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, b"")
            if not any(line.strip() == b"answered" for line in lines):
                raise RuntimeError(f"a fresh Python with {api.__name__} did not answer")
            samples.append(time.perf_counter() - began)
    return samples


def _answering_actor(api: Api) -> Any:
    class Answering:
        def answer(self) -> int:
            return 1

    return api.remote(num_cpus=0)(Answering)


def _actor_rate(api: Api, effort: Effort) -> list[float]:
    kind = _answering_actor(api)

    def create_and_ask() -> None:
        actor = kind.remote()
        api.get(actor.answer.remote())
        api.kill(actor)

    return rates(create_and_ask, per_call=1, effort=effort)


def _hundred_actors(api: Api, effort: Effort) -> list[float]:
    kind = _answering_actor(api)

    def create_and_ask() -> None:
        actors = [kind.remote() for _ in range(100)]
        api.get([actor.answer.remote() for actor in actors])

    return seconds(create_and_ask, times=1)


def _row(name: str, sample: Any, *, unit: str = "s", session: bool = False) -> Row:
    return Row(
        name=name,
        unit=unit,
        sample=sample,
        group="starting",
        session=session,
        more_is_better=unit == "/s",
    )


ROWS = (
    _row("init", _init),
    _row("first task after init", _first_task),
    _row("cold start: import, init, first task", _cold_start),
    _row("actor creation, ready to answer", _actor_rate, unit="/s", session=True),
    _row("100 actors created and answering", _hundred_actors, session=True),
)
