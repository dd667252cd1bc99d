"""The members of Dask's gang: rank 0 runs the scheduler, and each other member runs a worker."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from distributed import Scheduler, Worker

import phalanx
from phalanx.util.queue import Queue


def run_member(report: Queue, scheduler: dict[str, Any], worker: dict[str, Any]) -> None:
    """Run a member of the first gang of a Dask cluster until the cluster is closed.

    Rank 0 puts the scheduler's address into `report`. The scheduler listens at the gang's first
    port, and its page at the second.
    """
    _log_warnings_only()
    gang = phalanx.get_runtime_context().gang
    assert gang is not None
    if gang.rank:
        run_worker(f"{_protocol(worker)}://{gang.address}:{gang.ports[0]}", gang.rank - 1, worker)
        return

    async def serve() -> None:
        async with Scheduler(
            host=gang.address,
            port=gang.ports[0],
            dashboard_address=f"{gang.address}:{gang.ports[1]}",
            **{"protocol": _protocol(scheduler), **scheduler},
        ) as started:
            await asyncio.to_thread(report.put, started.address)
            await started.finished()

    asyncio.run(serve())


def run_worker(address: str, name: int, options: dict[str, Any]) -> None:
    """Run a worker of the scheduler at `address` until the worker or the scheduler ends it."""
    _log_warnings_only()

    async def serve() -> None:
        async with Worker(address, name=name, **options) as started:
            await started.finished()

    asyncio.run(serve())


def _protocol(options: dict[str, Any]) -> str:
    return "tls" if options.get("security") is not None else "tcp"


def _log_warnings_only() -> None:
    """Log only warnings and errors, because the driver shows everything that members print."""
    logging.getLogger("distributed").setLevel(logging.WARNING)
