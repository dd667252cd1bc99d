"""Metrics that a process reports to its node: counts of its tasks, and the metrics of its
program.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.observe.metrics.catalogue import OF_NODES
from phalanx.observe.metrics.definitions import Numbers, encode_numbers
from phalanx.observe.metrics.meter import Meter
from phalanx.observe.metrics.task_counts import count_runs
from phalanx.observe.task_journal import TaskJournal
from phalanx.owner.actors.calls import Calls
from phalanx.owner.objects.reconstruction import Reconstruction
from phalanx.owner.tasks.leases import TaskMachine
from phalanx.owner.transport import NodeLink
from phalanx.protocol.node_messages import ProcessNumbers

SAY_EVERY_S = 1.0
"""Seconds between reports of metrics to the node."""


class OwnerMetrics:
    """The metrics of one process. The node adds up those of all its processes."""

    def __init__(
        self,
        node: NodeLink,
        journal: TaskJournal,
        machine: TaskMachine,
        calls: Calls,
        reconstruction: Reconstruction,
        of_program: Callable[[], list[Numbers]],
    ) -> None:
        """`of_program` returns what the program's own metrics have counted since `of_program` was
        last called.
        """
        self._node = node
        self._journal = journal
        self._machine = machine
        self._calls = calls
        self._reconstruction = reconstruction
        self._of_program = of_program
        self._meter = Meter(OF_NODES)
        self._say_at = 0.0
        self._remade = 0
        self._said: dict[str, int] = {}

    def tick(self, now: float) -> None:
        """Count finished work, and report when it is time."""
        runs = self._journal.take_uncounted()
        if runs:
            count_runs(self._meter, runs)
        if now >= self._say_at:
            self._say_at = now + SAY_EVERY_S
            self.say()

    def say(self) -> None:
        """Report new metrics to the node."""
        if runs := self._journal.take_uncounted():
            count_runs(self._meter, runs)
        states = self._states()
        if states != self._said:
            self._said = states
            for state, count in states.items():
                self._meter.set("phalanx_tasks", count, state)
        remade = self._reconstruction.count
        if remade != self._remade:
            self._meter.add("phalanx_object_reconstructions_total", by=remade - self._remade)
            self._remade = remade
        metrics = [*self._meter.drain(), *self._of_program()]
        if metrics:
            self._node.post(ProcessNumbers(encode_numbers(metrics)))

    def _states(self) -> dict[str, int]:
        """Return the number of tasks in each state. Tasks are counted as they change, so this needs
        no loop over all tasks.
        """
        machine = self._machine
        classes = machine.classes.values()
        queued = sum(len(one.queue) for one in classes)
        running = sum(len(worker.inflight) for one in classes for worker in one.workers)
        return {
            "waiting": max(len(machine.pending) - queued - running, 0),
            "queued": queued,
            "running": running,
            "called": len(self._calls.by_number),
        }
