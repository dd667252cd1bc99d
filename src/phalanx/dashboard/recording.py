"""A recorder that follows a cluster and writes a record of it to a file."""

from __future__ import annotations

import asyncio
import signal
import time

from phalanx import __version__
from phalanx.dashboard.record import (
    FORMAT,
    Content,
    KnownJobs,
    Title,
    brought_up_to,
    recorded,
    write,
)
from phalanx.dashboard.watch import Ask, ClusterSnapshot, Watch

WRITES_EVERY_S = 10.0
"""The smallest number of seconds between two writes."""
SHARE = 50.0
"""The pause before the next write, as a multiple of the time that a write took. A write requests
much data from the head.
"""
_TURN_S = 0.1


class Recording:
    """A record that is being made."""

    def __init__(self, ask: Ask, cluster: str, path: str) -> None:
        self._ask = ask
        self._cluster = cluster
        self._path = path
        self._watch = Watch(ask)
        self._known: KnownJobs = {}
        self._content: Content | None = None
        """The last written content."""
        self._is_over = False
        self.jobs = 0
        """The number of jobs in the last written record."""

    def run(self, until_gone_s: float) -> None:
        """Record until SIGINT or SIGTERM, or until the head is silent for `until_gone_s` seconds.

        Raises ConnectionError when the head never answers, and OSError for a file that cannot be
        written.
        """
        asyncio.run(self._run(until_gone_s))

    def _end(self) -> None:
        self._is_over = True

    async def _run(self, until_gone_s: float) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._end)
        following = asyncio.create_task(self._watch.run())
        try:
            if await self._watch.newer(0, until_gone_s) is None:
                raise ConnectionError(self._watch.trouble or "The head has not answered.")
            self._watch.viewers += (
                1  # as with a viewer, rows, events and numbers are read every second
            )
            due = heard = time.monotonic()
            while not self._is_over and time.monotonic() < heard + until_gone_s:
                if not self._watch.trouble:
                    heard = time.monotonic()
                    if heard >= due:
                        await self._write()
                        now = time.monotonic()
                        due = now + max(WRITES_EVERY_S, SHARE * (now - heard))
                await asyncio.sleep(_TURN_S)
            if not self._watch.trouble:
                await self._watch.newer(self._version(), until_gone_s)
                await self._write()
            else:
                await self._write_last()
        finally:
            await self._watch.close()
            await following

    def _version(self) -> int:
        return 0 if self._watch.snapshot is None else self._watch.snapshot.version

    async def _write(self) -> None:
        snapshot = self._watch.snapshot
        if snapshot is None or snapshot.trouble:
            return  # the file has the last known state
        try:
            self._content = await asyncio.to_thread(
                recorded, self._ask, snapshot, self._watch.series, self._known
            )
        except ConnectionError:
            return
        await self._put(self._content, snapshot)

    async def _write_last(self) -> None:
        """Write the last known state, after the head has gone."""
        snapshot = self._watch.snapshot
        if snapshot is not None and self._content is not None:
            content = brought_up_to(self._content, snapshot, self._watch.series)
            await self._put(content, snapshot)

    async def _put(self, content: Content, snapshot: ClusterSnapshot) -> None:
        title = Title(format=FORMAT, cluster=self._cluster, at=snapshot.at, version=__version__)
        await asyncio.to_thread(write, self._path, title, content)
        self.jobs = len(snapshot.jobs)
