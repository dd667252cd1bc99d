"""Faults planted on purpose in production machines: the simulator must find them."""

from __future__ import annotations

import contextlib

import pytest

from phalanx.head.gangs import gang_scheduler, plan_applier
from phalanx.head.gangs.binder import GangBinder
from phalanx.head.gangs.member_lifecycle import Freed
from phalanx.head.gangs.scheduler_cache import SchedulerCache
from phalanx.head.groups.two_phase_commit import Attempts
from phalanx.head.jobs.dependents import Dependents
from phalanx.node.bundle_table import BundleTable
from phalanx.node.membership import ClusterMembership
from phalanx.owner.tasks.leases import TaskMachine
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.devices.instances import Allocation
from phalanx.storage import storage
from phalanx.storage.errors import StorageFullError
from phalanx_research.chaos.run import try_seed

SHORT = (8, 5, 2)
"""Seeds whose runs are short. They find most of the faults."""
SEEDS = (*SHORT, *range(1, 11))


class Boundless:
    """Resources that are never used up."""

    def __init__(self, resources):
        self._resources = resources

    def acquire(self, request):
        return self._resources.acquire(request) or Allocation(resources=request)

    def __getattr__(self, name):
        return getattr(self._resources, name)


def no_look_at_room(monkeypatch):
    """A node sets bundles aside even if it has no room for them."""
    prepare = BundleTable.prepare

    def careless(self, group, attempt, bundles, now):
        self._resources, kept = Boundless(self._resources), self._resources
        try:
            return prepare(self, group, attempt, bundles, now)
        finally:
            self._resources = kept

    monkeypatch.setattr(BundleTable, "prepare", careless)


def no_wait_for_all(monkeypatch):
    """The head waits for the first prepared node of a group only, and not for the other nodes of
    the group's plan.
    """
    prepared = Attempts.prepared

    def hasty(self, node_id, group, number, ok, now):
        attempt = self.get(group)
        if ok and attempt is not None and not attempt.is_committing:
            attempt.awaiting &= {node_id}
        prepared(self, node_id, group, number, ok, now)

    monkeypatch.setattr(Attempts, "prepared", hasty)


def one_more_try(monkeypatch):
    """A task whose worker died is tried again even if its owner declared no retries."""
    worker_lost = TaskMachine.worker_lost

    def stubborn(self, worker, reason, kind):
        for task in worker.inflight.values():
            task.retries = task.retries or 1
        worker_lost(self, worker, reason, kind)

    monkeypatch.setattr(TaskMachine, "worker_lost", stubborn)


def no_gang_minimum(monkeypatch):
    """The scheduler ignores the minimum of a gang and places as many members as fit, and no later
    check looks at the minimum.
    """
    amend = Job.amend

    def forgetful(self, spec):
        amend(self, spec)
        self.min_available = min(self.min_available, 1)

    monkeypatch.setattr(Job, "amend", forgetful)
    for module in (plan_applier, gang_scheduler):
        monkeypatch.setattr(module, "has_minimum", lambda gang, specs, more=0: True)


def freed_twice(monkeypatch):
    """The head handles each answer of a node that members have given back their resources twice."""

    returned = GangBinder.returned

    def careless(self, node_id, group, number):
        gang = self._registry.gangs.get(group)
        if gang is None or gang.is_removed:
            returned(self, node_id, group, number)
            return
        indexes = self.give_backs.awaited(node_id, group, number)
        self.give_backs.done(node_id, group, number)
        for _ in range(2):
            self.handle(gang, indexes, Freed())

    monkeypatch.setattr(GangBinder, "returned", careless)


def one_event_missed(monkeypatch):
    """The scheduler's cache is not told that nodes have freed the resources of ended members."""
    moved = SchedulerCache.members_moved

    def deaf(self, gang, move):
        if not isinstance(move.event, Freed):
            moved(self, gang, move)

    monkeypatch.setattr(SchedulerCache, "members_moved", deaf)


def patience_from_the_last_joining(monkeypatch):
    """A node counts its time without a head from the moment when it joined, not from the loss of
    the head.
    """
    joined, lost = ClusterMembership._joined, ClusterMembership.connection_lost
    since = {}

    def remembering(self, message):
        joined(self, message)
        since[self] = self._clock()

    def impatient(self, refusal, *about):
        lost(self, refusal, *about)
        self._headless_since = since.get(self, self._headless_since)

    table = {"_joined": remembering, "connection_lost": impatient}
    for name, planted in table.items():
        monkeypatch.setattr(ClusterMembership, name, planted)


def no_look_at_the_mark(monkeypatch):
    """A store counts as complete even if the mark beside it says that it had more batches."""
    monkeypatch.setattr(storage, "check_mark", lambda shard, found, mark: None)


def full_is_written(monkeypatch):
    """Records that did not fit into the store count as written."""
    apply = storage.Storage.apply

    def careless(self, batch):
        with contextlib.suppress(StorageFullError):
            apply(self, batch)

    monkeypatch.setattr(storage.Storage, "apply", careless)


def dials_that_never_fail(monkeypatch):
    """A node assumes that it always has a free file descriptor for a connection to its head."""
    dial = ClusterMembership._dial

    def trusting(self):
        dial(self)
        assert self._head is not None, "there is a connection"

    monkeypatch.setattr(ClusterMembership, "_dial", trusting)


def no_line(monkeypatch):
    """Singleton jobs begin even if it is not their turn."""
    monkeypatch.setattr(Dependents, "is_first", lambda self, uid, word: True)


@pytest.mark.parametrize(
    ("plant", "sentence", "seeds"),
    [
        (no_look_at_room, "are in use or kept for groups", (8, *range(2, 11))),
        (no_wait_for_all, "never set its bundles aside", SEEDS),
        (one_more_try, "times and was started", SEEDS),
        (no_gang_minimum, "members at once and begins with", SEEDS),
        (freed_twice, "(Freed) cannot happen to it. Its story:", SEEDS),
        (one_event_missed, "the scheduler's cache is not what it should be", (5, *range(1, 31))),
        (patience_from_the_last_joining, "ended as the head was away for a second", (12, 13)),
        (no_look_at_the_mark, "storage that has lost what it had confirmed", (12, 15)),
        (full_is_written, "ended as the head was away for a second", (29,)),
        (no_line, "one at a time may run", (54,)),
        (dials_that_never_fail, "raised AssertionError: there is a connection", (21, 3)),
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
