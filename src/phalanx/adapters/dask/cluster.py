"""Dask's scheduler and workers as a gang, for everything that needs `distributed.Client`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from distributed.core import Status
from distributed.deploy.spec import ProcessInterface, SpecCluster

import phalanx
from phalanx.adapters.dask.member import run_member, run_worker
from phalanx.util.queue import Queue

PORTS = 2
"""The number of ports of Dask's scheduler: one for itself, and one for its page."""


class Cluster(SpecCluster):
    """A Dask cluster of `n_workers` workers with `nthreads` threads each. The cluster starts
    completely or not at all.

        with Cluster(n_workers=4, nthreads=2) as cluster, Client(cluster) as client:
            ...

    The cluster is a gang with one additional member: rank 0 runs Dask's scheduler. Each member
    holds `nthreads` CPUs unless `remote_args` sets another amount. `remote_args` are options of
    tasks, such as `{"num_gpus": 1}`. `queue`, `priority` and `topology` are options of the gang.
    `scale` and `adapt` add workers, each as a gang of its own, and end workers whose data Dask has
    moved away. A worker whose process dies starts again. `worker_options` and `scheduler_options`
    are passed to Dask's classes. With `security`, all processes use TLS. Without it, anybody who
    can reach the scheduler's port can run code. The constructor waits until the gang is placed, and
    raises RuntimeError with the reason if the cluster cannot start.
    """

    def __init__(
        self,
        n_workers: int = 2,
        nthreads: int = 1,
        *,
        memory_limit: str | int | float | None = "auto",
        queue: str | None = None,
        priority: int | None = None,
        topology: str | None = None,
        remote_args: Mapping[str, Any] | None = None,
        worker_options: Mapping[str, Any] | None = None,
        scheduler_options: Mapping[str, Any] | None = None,
        security: Any = None,
        **more: Any,
    ) -> None:
        if not phalanx.is_initialized():
            phalanx.init()
        secured = {} if security is None else {"security": security}
        of_worker = {
            "nthreads": nthreads,
            "memory_limit": memory_limit,
            **secured,
            **(worker_options or {}),
        }
        task = {"num_cpus": nthreads, "max_retries": -1, **(remote_args or {})}
        placed = {"queue": queue, "priority": priority, "topology": topology}
        begun = _Begun(n_workers, task, placed, of_worker, {**secured, **(scheduler_options or {})})
        alone = {"task": task, "placed": placed, "nthreads": nthreads, "memory_limit": memory_limit}
        new = {"cls": _Added, "options": {**alone, "worker": of_worker}}
        super().__init__(
            scheduler={"cls": _Begun.interface, "options": {"begun": begun}},
            workers={name: {"cls": _Member} for name in range(n_workers)},
            worker=new,
            security=security,
            **more,
        )


class _Scheduler(ProcessInterface):
    """Rank 0 of the gang, with Dask's interface of a process. Closing this process ends the whole
    gang.
    """

    def __init__(self, begun: _Begun) -> None:
        super().__init__()
        self._begun = begun

    async def start(self) -> None:
        self.address = await self._begun.start()
        await super().start()

    async def close(self) -> None:
        await asyncio.to_thread(self._begun.end)
        await super().close()


class _Begun:
    """The gang with which a cluster begins: its scheduler and its first workers."""

    interface = _Scheduler

    def __init__(
        self,
        n_workers: int,
        task: Mapping[str, Any],
        placed: Mapping[str, Any],
        worker: dict[str, Any],
        scheduler: dict[str, Any],
    ) -> None:
        function = phalanx.remote(**task)(run_member)
        self._function = function.gang(n_workers + 1, ports=PORTS, **placed)
        self._worker = worker
        self._scheduler = scheduler
        self._report = Queue(actor_options={"num_cpus": 0})
        self.gang: Any = None

    async def start(self) -> str:
        """Start the gang. Returns the scheduler's address when the scheduler runs."""
        self.gang = await asyncio.to_thread(
            self._function.remote, self._report, self._scheduler, self._worker
        )
        told = asyncio.ensure_future(asyncio.to_thread(self._report.get))
        ended = asyncio.wrap_future(self.gang[0].future())
        # read the error, so that no unread failure is reported after the cluster's end
        ended.add_done_callback(lambda one: one.exception())
        await asyncio.wait({told, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not told.done():
            ended.result()
            raise RuntimeError("Dask's scheduler ended before it reported its address")
        address: str = told.result()
        return address

    def end(self) -> None:
        if self.gang is not None:
            self.gang.cancel()
        self._report.shutdown(force=True)


class _Member(ProcessInterface):
    """A worker of the first gang. It starts with the gang, and ends when Dask's scheduler closes
    it.
    """

    def __init__(self, address: str, name: int) -> None:
        super().__init__()


class _Added(ProcessInterface):
    """A worker that `scale` or `adapt` added later."""

    def __init__(
        self,
        address: str,
        task: Mapping[str, Any],
        placed: Mapping[str, Any],
        worker: dict[str, Any],
        name: int,
        **_: Any,
    ) -> None:
        super().__init__()
        self._function = phalanx.remote(**task)(run_worker).gang(1, **placed)
        self._arguments: tuple[Any, ...] = (address, name, worker)
        self._gang: Any = None

    async def start(self) -> None:
        self._gang = await asyncio.to_thread(self._function.remote, *self._arguments)
        await super().start()

    async def close(self) -> None:
        if self._gang is not None and self.status != Status.closed:
            await asyncio.to_thread(self._gang.cancel)
        await super().close()
