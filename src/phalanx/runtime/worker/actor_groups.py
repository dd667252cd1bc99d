"""The threads in which calls of an actor's concurrency groups run."""

from __future__ import annotations

import queue
import threading
from collections import defaultdict
from collections.abc import Callable

from phalanx.worker.assigned import Entry


class _Pool:
    """The threads of one group."""

    def __init__(self) -> None:
        self.ready: queue.SimpleQueue[Entry] = queue.SimpleQueue()
        """Admitted calls that no thread has begun yet."""
        self.threads = 0


class GroupThreads:
    """The threads, by group. They never end, because user code may have thread-local data in
    them.
    """

    def __init__(self, run: Callable[[str, Entry], None]) -> None:
        """`run(group, call)` runs a call, and then the waiting calls that take its place."""
        self._run = run
        self._pools: defaultdict[str, _Pool] = defaultdict(_Pool)

    def hand(self, group: str, entry: Entry, needed: int) -> None:
        """Run an admitted call in a thread of its group. `needed`: the number of running calls in
        the group, including this one.
        """
        pool = self._pools[group]
        if pool.threads < needed:
            pool.threads += 1
            threading.Thread(target=self._serve, args=(group, pool), daemon=True).start()
        pool.ready.put(entry)

    def _serve(self, group: str, pool: _Pool) -> None:
        while True:
            self._run(group, pool.ready.get())
