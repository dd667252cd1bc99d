"""The soak's work: tasks with dependencies, actors with restarts, and large objects, while workers
are killed.

Every result is compared with the expected one. `Soak.leaks` returns what was not released.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
import time
from typing import Any

import numpy
from tests.node_parts import name_of
from tests.polling import eventually
from tests.system.chaos.footprint import descriptors, resident_bytes

import phalanx
from phalanx.runtime.os.process_names import SHIELD

LARGE = 300_000
"""The numbers in a large array: 2.4 MB, well above the size that messages carry inline."""
MIB = 1 << 20


class Killer(threading.Thread):
    """Kills random workers of a session, at random intervals."""

    def __init__(self, footprint, seed, pause_s):
        super().__init__(daemon=True)
        self._footprint = footprint
        self._random = random.Random(seed)
        self._pause_s = pause_s
        self._stopped = threading.Event()
        self.kills = 0

    def run(self):
        while not self._stopped.wait(self._pause_s * self._random.uniform(0.5, 1.5)):
            pids = self._footprint.workers
            if not pids:
                continue
            try:
                os.kill(self._random.choice(pids), signal.SIGKILL)
            except ProcessLookupError:
                continue
            self.kills += 1

    def stop(self):
        self._stopped.set()
        self.join()


class Soak:
    """Rounds of work on a running session, with every result checked."""

    def __init__(self, footprint, seed=0):
        self.footprint = footprint
        self.random = random.Random(seed)
        self.seed = seed
        self.rounds = self.results = self.kills = 0
        self._define()

    def _define(self):
        endless = phalanx.remote(max_retries=-1)

        @endless
        def square(number):
            return number * number

        @endless
        def add(left, right):
            return left + right

        @endless
        def fill(number, count):
            return numpy.full(count, float(number))

        @endless
        def total(array):
            return float(array.sum())

        @endless
        def nested(numbers):
            return sum(phalanx.get([square.remote(n) for n in numbers]))

        @endless
        def inside(box):
            return float(phalanx.get(box["array"])[0])

        @phalanx.remote(max_retries=-1, num_returns="streaming")
        def count(number):
            yield from range(number)

        @phalanx.remote(max_restarts=-1, max_task_retries=-1)
        class Squares:
            def square(self, number):
                return number * number

            def head(self, array):
                return float(array[0])

        self.square, self.add, self.fill, self.total = square, add, fill, total
        self.nested, self.inside, self.count, self.Squares = nested, inside, count, Squares

    # ---- work --------------------------------------------------------------------------------

    def run(self, duration_s, kill_pause_s=0.25, least_kills=0):
        """Do rounds of work for at least this many seconds, and until `least_kills` workers have
        been killed.
        """
        killer = Killer(self.footprint, self.seed, kill_pause_s)
        actors = [self.Squares.remote() for _ in range(2)]
        until = time.monotonic() + duration_s
        killer.start()
        try:
            while time.monotonic() < until or killer.kills < least_kills:
                self.round(actors)
        finally:
            killer.stop()
            self.kills += killer.kills
        for actor in actors:
            phalanx.kill(actor)

    def round(self, actors):
        """Submit some of each kind of work at the same time, then compare every result."""
        work = [self.tree, self.arrays, self.calls, self.nesting, self.boxes, self.stream]
        self.random.shuffle(work)
        expected = []
        for make in work:
            expected += make(actors)
        refs = [ref for ref, _ in expected]
        found = phalanx.get(refs, timeout=120)
        wrong = [(f, e) for f, (_, e) in zip(found, expected, strict=True) if f != e]
        assert not wrong, f"round {self.rounds} of seed {self.seed}: (found, expected) {wrong[:5]}"
        self.rounds += 1
        self.results += len(expected)

    def tree(self, actors):
        numbers = [self.random.randrange(1000) for _ in range(32)]
        level = [self.square.remote(n) for n in numbers]
        while len(level) > 1:
            level = [self.add.remote(*level[i : i + 2]) for i in range(0, len(level), 2)]
        return [(level[0], sum(n * n for n in numbers))]

    def arrays(self, actors):
        number = self.random.randrange(1000)
        made = self.fill.remote(number, LARGE)
        mine = phalanx.put(numpy.full(LARGE, number + 1.0))
        both = self.add.remote(made, mine)
        return [
            (self.total.remote(made), float(number * LARGE)),
            (self.total.remote(both), float((2 * number + 1) * LARGE)),
        ]

    def calls(self, actors):
        array = phalanx.put(numpy.full(LARGE, 7.0))
        expected: list[tuple[Any, float]] = []
        for actor in actors:
            numbers = [self.random.randrange(1000) for _ in range(20)]
            expected += [(actor.square.remote(n), n * n) for n in numbers]
            expected.append((actor.head.remote(array), 7.0))
        return expected

    def nesting(self, actors):
        numbers = [self.random.randrange(100) for _ in range(4)]
        return [(self.nested.remote(numbers), sum(n * n for n in numbers))]

    def boxes(self, actors):
        number = self.random.randrange(100)
        return [(self.inside.remote({"array": self.fill.remote(number, LARGE)}), float(number))]

    def stream(self, actors):
        return [(ref, i) for i, ref in enumerate(self.count.remote(5))]

    # ---- leaks -------------------------------------------------------------------------------

    def measure(self):
        """Return the amounts that this process and the node hold when no work runs any more."""
        gc.collect()
        node = self.footprint.node
        return {
            "driver MiB": resident_bytes(os.getpid()) / MIB,
            "node MiB": resident_bytes(node) / MIB,
            "driver descriptors": descriptors(os.getpid()),
            "node descriptors": descriptors(node),
            "fork server descriptors": descriptors(self.footprint.fork_server),
            "processes": sum(name_of(pid).encode() != SHIELD for pid in self.footprint.processes()),
            "sockets": len(self.footprint.sockets()),
            "object files": len(self.footprint.objects()),
        }

    def leaks(self, before, allowed):
        """Return those of the amounts that have grown by more than `allowed` since `before`. Waits
        a while, because memory and descriptors may be released later.
        """
        grown: dict[Any, Any] = {}

        def is_quiet():
            now = self.measure()
            grown.clear()
            grown.update({k: (before[k], v) for k, v in now.items() if v - before[k] > allowed[k]})
            return not grown

        try:
            eventually(is_quiet)
        except AssertionError:
            return dict(grown)
        return {}
