"""Raylets, node agents and the scheduler are killed at random while a mix of jobs runs.

The records of the jobs' members show whether promises were kept. Each member holds locks, which
reveal a member that runs twice and a device that two members hold. No member continues before its
whole gang runs, so a gang of which only a part was started never ends.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import ray
from tests.polling import eventually

from phalanx.api.job import Job
from phalanx.api.jobs import SETTLED
from phalanx.protocol.requests.jobs import ListJobs

from . import member
from .cluster import NODE, Phalanx, kill_hard, node_agent, scheduler

CPU = 0.25
JOBS = 10
NODES = 3
SIZES = ((1, 1), (2, 2), (3, 2), (3, 4), (6, 1))
"""(members, devices of each). Each job fits a cluster that has lost a node, or waits until it
fits.
"""


class Faults:
    """A mix of jobs, and the faults of the cluster while they run. One seed determines both."""

    def __init__(self, phx: Phalanx, directory: Path, seed: int) -> None:
        self.phx = phx
        self.directory = directory
        self.rng = random.Random(seed)
        self.fails: set[str] = set()
        self.sizes: dict[str, int] = {}
        for number in range(JOBS):
            self._submit(f"mix-{seed}-{number}", fails=number % 5 == 4)
        self.shut = list(self.sizes)

    def _submit(self, name: str, *, fails: bool) -> None:
        size, gpus = self.rng.choice(SIZES)
        self.sizes[name] = size
        if fails:
            self.fails.add(name)
        words = [sys.executable, "-S", "-E", member.__file__, self.directory, size, 3 * fails]
        self.phx.submit(
            Job(
                list(map(str, words)),
                name=name,
                members=size,
                num_cpus=CPU,
                num_gpus=gpus,
                priority=self.rng.randrange(3),
                max_retries=1 if fails else 100,
                grace_s=0.5,
            )
        )

    # ---- what is done ------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Inject this many faults one after another, each while a job runs. Every kind occurs."""
        kinds: list[Callable[[], None]] = [self.scheduler, self.agent, self.node]
        drawn = kinds + self.rng.choices(kinds, k=steps - len(kinds))
        self.rng.shuffle(drawn)
        for fault in drawn:
            eventually(self._something_runs)
            fault()
            if self.shut:
                self._go(self.shut.pop(self.rng.randrange(len(self.shut))))
        for name in self.shut:
            self._go(name)
        while len(self.phx.nodes) < NODES:
            self.phx.add_node()

    def scheduler(self) -> None:
        """Kill the scheduler's process."""
        self._kill(scheduler)

    def agent(self) -> None:
        """Kill the process of a node's agent."""
        self._kill(partial(node_agent, self.rng.choice(self.phx.nodes).node_id))

    def node(self) -> None:
        """Kill a raylet, or start another one if one is missing."""
        if len(self.phx.nodes) < NODES:
            self.phx.nodes.append(self.phx.cluster.add_node(**NODE))
            return
        lost = self.rng.choice(self.phx.mortal())
        self.phx.nodes.remove(lost)
        self.phx.cluster.remove_node(lost, allow_graceful=False)

    def _kill(self, find: Callable[[], Any]) -> None:
        # It may be on its way back from the last time.
        with contextlib.suppress(ray.exceptions.RayError, ValueError):
            kill_hard(self.phx.pid(find()))

    def _go(self, name: str) -> None:
        (self.directory / f"{name}-go").touch()

    def _something_runs(self) -> bool:
        states = [row["state"] for row in self.phx.ask(ListJobs())]
        return "Running" in states or all(state in SETTLED for state in states)

    # ---- what is promised --------------------------------------------------------------------

    def check(self) -> None:
        """Check that every job ends as its policy says, and that no member recorded a violation."""
        ends = {name: self.phx.until(name)["state"] for name in self.sizes}
        assert ends == {name: "Failed" if name in self.fails else "Completed" for name in ends}
        seen = [line.split() for line in (self.directory / "events").read_text().splitlines()]
        assert not [words for words in seen if words[3] == "twice"]
        ended = {(job, int(index)) for job, index, _, what in seen if what == "ended"}
        for name, size in self.sizes.items():
            if name not in self.fails:
                assert {(name, index) for index in range(size)} <= ended
        assert ended, "nobody ran"


def test_whatever_is_killed_every_job_ends_as_its_policy_says(phx: Phalanx, tmp_path: Path) -> None:
    faults = Faults(phx, tmp_path, seed=8)
    faults.run(steps=5)
    faults.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 106))
def test_promises_are_kept_whatever_is_killed(phx: Phalanx, tmp_path: Path, seed: int) -> None:
    faults = Faults(phx, tmp_path, seed)
    faults.run(steps=12)
    faults.check()
