"""Faults planted on purpose in production machines: the simulator must say that they are there."""

from __future__ import annotations

import pytest

from phalanx.batch.jobs import Job
from phalanx.head.gangs.plan_applier import PlanApplier
from phalanx.head.groups.table import GroupTable
from phalanx.node.bundle_table import BundleTable
from phalanx.owner.tasks.leases import TaskMachine
from phalanx.resources.instances import Allocation
from phalanx.sim.chaos.run import try_seed

SEEDS = range(1, 11)


class Boundless:
    """Resources that are never used up."""

    def __init__(self, resources):
        self._resources = resources

    def acquire(self, request):
        return self._resources.acquire(request) or Allocation(resources=request)

    def __getattr__(self, name):
        return getattr(self._resources, name)


def no_look_at_room(monkeypatch):
    """A node sets bundles aside whether it has room for them or not."""
    prepare = BundleTable.prepare

    def careless(self, group, attempt, bundles, now):
        self._resources, kept = Boundless(self._resources), self._resources
        try:
            return prepare(self, group, attempt, bundles, now)
        finally:
            self._resources = kept

    monkeypatch.setattr(BundleTable, "prepare", careless)


def no_wait_for_all(monkeypatch):
    """A group begins when the first of its nodes has said yes: the plan is applied unchecked."""
    prepared = GroupTable.prepared

    def hasty(self, node_id, group_id, number, ok, now):
        group = self._groups.get(group_id)
        if ok and group is not None and group.attempt is not None:
            group.attempt.awaiting &= {node_id}
        prepared(self, node_id, group_id, number, ok, now)

    monkeypatch.setattr(GroupTable, "prepared", hasty)


def one_more_try(monkeypatch):
    """A task whose worker died is tried again, whatever its owner declared."""
    worker_lost = TaskMachine.worker_lost

    def stubborn(self, worker, reason, kind):
        for task in worker.inflight.values():
            task.retries = task.retries or 1
        worker_lost(self, worker, reason, kind)

    monkeypatch.setattr(TaskMachine, "worker_lost", stubborn)


def no_gang_minimum(monkeypatch):
    """The scheduler forgets the minimum of a gang, and places whom it has room for; and nobody
    looks again before it is done."""
    made = Job.__init__

    def forgetful(self, *told):
        made(self, *told)
        self.min_available = min(self.min_available, 1)

    monkeypatch.setattr(Job, "__init__", forgetful)
    monkeypatch.setattr(PlanApplier, "_is_enough", lambda self, gang, more, gone=(): True)


@pytest.mark.parametrize(
    ("plant", "sentence", "seeds"),
    [
        (no_look_at_room, "are in use or kept for groups", SEEDS),
        (no_wait_for_all, "never set its bundles aside", SEEDS),
        (one_more_try, "times and was started", SEEDS),
        (no_gang_minimum, "members at once and begins with", SEEDS),
    ],
)
def test_a_planted_fault_is_found(monkeypatch, plant, sentence, seeds):
    plant(monkeypatch)
    for seed in seeds:
        result, _ = try_seed(seed)
        if result.broken:
            assert sentence in result.broken
            assert result.story
            assert result.replay.endswith(f"--seed {seed}")
            return
    pytest.fail(f"no seed of {seeds} found it")
