"""Rows of actors, plain and async: one caller calls one actor, one caller calls many, and many
callers call many.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from phalanx_benchmarks.row import Api, Build, loop

MANY = (os.cpu_count() or 2) // 2 or 1
"""The number of actors that `n` means in the names of rows."""
CALLS = 1000
CALLERS = 4
CALLS_WITH_ARGUMENT = 1000


def _plain(api: Api, **options: Any) -> Any:
    class Actor:
        def small_value(self) -> bytes:
            return b"ok"

        def small_value_with(self, value: object) -> bytes:
            return b"ok"

    return api.remote(num_cpus=0, **options)(Actor)


def _async(api: Api) -> Any:
    class AsyncActor:
        async def small_value(self) -> bytes:
            return b"ok"

        async def small_value_with(self, value: object) -> bytes:
            return b"ok"

    return api.remote(AsyncActor)


def _caller(api: Api) -> Any:
    class Caller:
        def __init__(self, actors: list[Any]) -> None:
            self.actors = actors

        def batch(self, count: int) -> None:
            api.get([actor.small_value.remote() for actor in self.actors for _ in range(count)])

        def batch_with(self, count: int) -> None:
            value = api.put(0)
            api.get(
                [
                    actor.small_value_with.remote(value)
                    for actor in self.actors
                    for _ in range(count)
                ]
            )

    return api.remote(num_cpus=0)(Caller)


def _one_by_one(kind: Callable[[Api], Any]) -> Build:
    def build(api: Api) -> Callable[[], object]:
        actor = kind(api).remote()
        return lambda: api.get(actor.small_value.remote())

    return build


def _thousand(kind: Callable[[Api], Any]) -> Build:
    def build(api: Api) -> Callable[[], object]:
        actor = kind(api).remote()
        return lambda: api.get([actor.small_value.remote() for _ in range(1000)])

    return build


def _thousand_with_arguments(api: Api) -> Callable[[], object]:
    actor = _async(api).remote()
    return lambda: api.get([actor.small_value_with.remote(i) for i in range(1000)])


def _one_to_many(kind: Callable[[Api], Any]) -> Build:
    def build(api: Api) -> Callable[[], object]:
        caller = _caller(api).remote([kind(api).remote() for _ in range(MANY)])
        return lambda: api.get(caller.batch.remote(CALLS))

    return build


def _many_to_many(kind: Callable[[Api], Any]) -> Build:
    def build(api: Api) -> Callable[[], object]:
        actors = [kind(api).remote() for _ in range(MANY)]
        count = CALLS

        def call_all(actors: list[Any]) -> None:
            api.get([actors[i % len(actors)].small_value.remote() for i in range(count)])

        task = api.remote(call_all)
        return lambda: api.get([task.remote(actors) for _ in range(CALLERS)])

    return build


def _many_to_many_with_argument(api: Api) -> Callable[[], object]:
    callers = [_caller(api).remote([_plain(api).remote()]) for _ in range(MANY)]
    return lambda: api.get([caller.batch_with.remote(CALLS_WITH_ARGUMENT) for caller in callers])


def _threaded(api: Api) -> Any:
    return _plain(api, max_concurrency=16)


ROWS = (
    loop("1:1 actor calls sync", _one_by_one(_plain)),
    loop("1:1 actor calls async", _thousand(_plain), per_call=1000),
    loop("1:1 actor calls concurrent", _thousand(_threaded), per_call=1000),
    loop("1:n actor calls async", _one_to_many(_plain), per_call=CALLS * MANY),
    loop("n:n actor calls async", _many_to_many(_plain), per_call=CALLS * CALLERS),
    loop(
        "n:n actor calls with arg async",
        _many_to_many_with_argument,
        per_call=CALLS_WITH_ARGUMENT * MANY,
    ),
    loop("1:1 async-actor calls sync", _one_by_one(_async)),
    loop("1:1 async-actor calls async", _thousand(_async), per_call=1000),
    loop("1:1 async-actor calls with args async", _thousand_with_arguments, per_call=1000),
    loop("1:n async-actor calls async", _one_to_many(_async), per_call=CALLS * MANY),
    loop("n:n async-actor calls async", _many_to_many(_async), per_call=CALLS * CALLERS),
)
