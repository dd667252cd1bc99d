"""The control store by itself, with nodes that answer when the test says so, and a disk to restart
from."""

from __future__ import annotations

from tests.asking import ask
from tests.unit.head.making import make_control

from phalanx.api.new_manifests import job_manifest
from phalanx.head.gangs.member_states import SHOWN
from phalanx.head.head import NOTHING_STORED
from phalanx.head.state_store import read_state
from phalanx.model.ids import GangId, GroupId
from phalanx.model.jobs.spec import JobSpec
from phalanx.protocol.bundle_messages import (
    BundlesGone,
    CommitBundles,
    Committed,
    GiveBackBundles,
    PrepareBundles,
    Prepared,
)
from phalanx.protocol.cluster_messages import NodeReport, ViewRow
from phalanx.protocol.requests.gangs import CreateGang
from phalanx.protocol.requests.jobs import ApplyManifests
from phalanx.storage.memory import MemoryDisk, MemoryShard
from phalanx.storage.storage import Storage

GROUP = GangId(GroupId(bytes(18)))


class SlowJournal:
    """Writes when the test says so."""

    shortage = ""
    is_stalled = False

    def __init__(self, storage):
        self.storage = storage
        self.records = []

    def flush(self):
        """What was recorded waits until the test has it written."""

    def record(self, changes, durable=None):
        self.records.append((dict(changes), durable))

    def write(self):
        while self.records:
            changes, durable = self.records.pop(0)
            self.storage.apply(changes)
            if durable is not None:
                durable()


class World:
    """A head with nodes of a CPU each, which answer when the test says so."""

    def __init__(self):
        self.now = 100.0
        self.ahead_s = 0.0
        """By how much the wall-clock time is ahead of the clock that never goes back."""
        self.told = []
        self.start()

    def start(self):
        self.start_from(None, NOTHING_STORED)

    def start_from(self, journal, stored):
        self.shell = make_control(
            lambda prefix, message: self.told.append((prefix, message)),
            lambda: self.now,
            journal=journal,
            stored=stored,
            wall=lambda: self.now + self.ahead_s,
            boot="this one",
            is_alone=True,
        )

    def add(self, name, cpus=1.0):
        total = {"CPU": cpus}
        prefix = name.encode().ljust(6)
        row = ViewRow(name, prefix, "", 0, "ALIVE", total, dict(total), labels={})
        self.shell.join_alone(row)
        self.hear(name, NodeReport(available=total))

    def kill(self, name):
        self.shell.nodes.leave(name, "its process ended")
        self.told = [(prefix, m) for prefix, m in self.told if prefix != name.encode().ljust(6)]

    def gang(self, members, least):
        needs = [{"CPU": 1.0}] * members
        self.ask(CreateGang(GROUP, "g", "default", needs, min_members=least))

    def ask(self, request):
        return ask(self.shell, request)

    def job(self, *groups, name="job", **fields):
        spec = JobSpec(name=name, groups=groups, **fields)
        self.ask(ApplyManifests([job_manifest(spec)]))

    def of_job(self):
        return self.shell.gang_scheduler.jobs.gang_of("default/job")

    def evict(self, members, gang=None, claimant=""):
        """The scheduler takes places away."""
        batch = self.shell.gang_scheduler
        batch.applier.evict(gang or batch.registry.gangs[GROUP], members, "preempt", claimant)

    def cycles(self, count=1):
        for _ in range(count):
            self.now += 5.0
            self.shell.on_round(self.now)

    def answer(self):
        """The nodes do what they were told; what they were told, by kind."""
        done, orders = [], []
        answer: Prepared | Committed | BundlesGone
        while self.told:
            prefix, message = self.told.pop(0)
            place = (GroupId(getattr(message, "group", b"")), getattr(message, "attempt", 0))
            match message:
                case PrepareBundles():
                    answer = Prepared(*place, True)
                case CommitBundles():
                    answer = Committed(*place, True)
                case GiveBackBundles():
                    answer = BundlesGone(*place)
                case _:
                    orders.append((prefix, message))
                    continue
            done.append(type(message))
            self.shell.on_message(prefix, answer)
        self.told = orders
        return done

    def hear(self, node, message):
        self.shell.on_message(node.encode().ljust(6), message)

    def states(self, gang=None):
        gang = gang or self.shell.gang_scheduler.registry.gangs[GROUP]
        return [SHOWN[member.state] for member in gang.members]


class StoredWorld(World):
    """Its head writes to a disk, when the test says so."""

    def __init__(self):
        self.disk = MemoryDisk()
        super().__init__()

    def start(self):
        storage = Storage([MemoryShard(self.disk)])
        self.journal = SlowJournal(storage)
        self.start_from(self.journal, read_state(storage))

    def write(self):
        self.journal.write()

    def restart(self):
        """The head dies, with all that it had not written, and the next one begins."""
        self.told.clear()
        self.start()
        self.write()
