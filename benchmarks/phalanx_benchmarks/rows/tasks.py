"""Rows of tasks that do nothing: one at a time, many at once, and from several actors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx_benchmarks.row import Api, loop

CLIENTS = 4
TASKS_OF_A_CLIENT = 1_000


def small_task(api: Api) -> Any:
    """Return a remote function that returns two bytes.

    The function is local, so that it is pickled as a whole.
    """

    def small_value() -> bytes:
        return b"ok"

    return api.remote(small_value)


def _batch(api: Api) -> Callable[[], object]:
    small_value = small_task(api)
    return lambda: api.get([small_value.remote() for _ in range(1000)])


def _wait_each(api: Api) -> Callable[[], object]:
    small_value = small_task(api)

    def work() -> None:
        pending = [small_value.remote() for _ in range(1000)]
        # The first call starts all fetches, which then go on by themselves; a repeated start would
        # be measured, too.
        fetch_local = True
        for _ in range(1000):
            _, pending = api.wait(pending, fetch_local=fetch_local)
            fetch_local = False

    return work


def _one_by_one(api: Api) -> Callable[[], object]:
    small_value = small_task(api)
    return lambda: api.get(small_value.remote())


def _from_actors(api: Api) -> Callable[[], object]:
    small_value = small_task(api)

    class Client:
        def batch(self, count: int) -> None:
            api.get([small_value.remote() for _ in range(count)])

    clients = [api.remote(num_cpus=0)(Client).remote() for _ in range(CLIENTS)]
    return lambda: api.get([client.batch.remote(TASKS_OF_A_CLIENT) for client in clients])


ROWS = (
    loop("single client wait 1k refs", _wait_each),
    loop("single client tasks sync", _one_by_one),
    loop("single client tasks async: 1,000, then all results", _batch, per_call=1000),
    loop("multi client tasks async", _from_actors, per_call=CLIENTS * TASKS_OF_A_CLIENT),
)
