"""The scheduler's cache is updated by events. After any sequence of events about gangs, jobs, nodes
and queues, it equals a cache that was built from the head's state, and leads to the same decisions.
In the end nodes and head agree.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.world.clock import ManualClock
from tests.world.cluster import World
from tests.world.node import Node, WorkingNode
from tests.world.store import Journal

from phalanx.api.new_manifests import job_manifest
from phalanx.errors import PhalanxError
from phalanx.head.gangs.cycle_times import CycleTimes
from phalanx.head.gangs.member_states import HELD, PLACING
from phalanx.model.holds import DRAIN, Hold
from phalanx.model.jobs.spec import JobSpec, Policy, Process, TaskGroup, Template
from phalanx.observe.metrics.meter import Meter
from phalanx.protocol.bundle_messages import GiveBackBundles, MemberNews
from phalanx.protocol.requests.jobs import ApplyManifests, CommandJob, ResizeJob
from phalanx.protocol.requests.queues import CreateQueue, DeleteQueue, QueueFields, UpdateQueue
from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx_research.chaos.cache_check import differences

SMALL = st.integers(0, 3)


class LateNode(WorkingNode):
    """A node whose members may still run when the head has already freed their places."""

    def answers(self, message):
        is_given_back = isinstance(message, GiveBackBundles)
        yield from Node.answers(self, message) if is_given_back else super().answers(message)


class JobWorld(World):
    """A head whose nodes join over the network, and run members."""

    node_class = LateNode

    def __init__(self):
        super().__init__(journal=Journal(), is_alone=False)

    def members(self):
        """Return (member, node) of all running members, in order."""
        return sorted(
            (member, node.name) for node in self.nodes.values() for member in node.running
        )


def keep_nominations(kept, read):
    """Copy the nodes that an earlier cycle set aside for tasks. A cache that was built from the
    head's state does not have them.
    """
    row_of = {uid: row for row, uid in enumerate(read.task_uid)}
    for row, node in kept.nominated.items():
        uid = kept.task_uid[row]
        if uid in row_of:
            read.nominated[row_of[uid]] = read.node_index[kept.node_names[node]]


class Machine(RuleBasedStateMachine):
    """One head, a few nodes, and messages between them that may be late, lost or delivered
    twice.
    """

    def __init__(self):
        super().__init__()
        self.world = JobWorld()
        self.made = 0

    @initialize(cpus=st.lists(st.integers(1, 4), min_size=1, max_size=3))
    def begin(self, cpus):
        for number, count in enumerate(cpus):
            self.world.add(f"n{number}", CPU=count)
        self.made = len(cpus)

    # ---- what people do

    @rule(members=st.integers(1, 4), least=SMALL, half=st.booleans(), priority=SMALL, queue=SMALL)
    def gang(self, members, least, half, priority, queue):
        self.made += 1
        queues = ["default", *(q.name for q in self.world.scheduler.queues.table.all()[2:])]
        least = min(max(least, 1), members)
        fields = {"priority": priority, "queue": queues[queue % len(queues)]}
        try:
            self.world.gang(f"g{self.made}", members, least, 0.5 if half else 1.0, **fields)
        except PhalanxError:
            return  # no node could ever hold it

    @rule(replicas=st.integers(1, 3), least=SMALL, depends=st.booleans(), restarts=st.booleans())
    def job(self, replicas, least, depends, restarts):
        self.made += 1
        template = Template(
            processes=(Process(command=("true",), requests=(("CPU", 1.0),)),), restart="Never"
        )
        spec = JobSpec(
            name=f"j{self.made}",
            groups=(
                TaskGroup(name="a", replicas=replicas, min_available=1, template=template),
                TaskGroup(name="b", replicas=1, min_available=least % 2, template=template),
            ),
            min_available=1 + least % 2,
            policies=(Policy(action="RestartJob", events=("PodFailed", "PodEvicted")),) * restarts,
        )
        try:
            self.world.ask(ApplyManifests([job_manifest(spec)]))
        except PhalanxError:
            return

    @rule(number=SMALL, replicas=st.integers(1, 4))
    def resize(self, number, replicas):
        jobs = self.world.scheduler.jobs.table.all()
        if jobs:
            job = jobs[number % len(jobs)]
            try:
                self.world.ask(ResizeJob(job.uid, {"a": replicas}))
            except PhalanxError:
                return

    @rule(number=SMALL, action=st.sampled_from(["suspend", "resume", "cancel"]))
    def command(self, number, action):
        jobs = self.world.scheduler.jobs.table.all()
        if jobs:
            try:
                self.world.ask(CommandJob(jobs[number % len(jobs)].uid, action))
            except PhalanxError:
                return

    @rule(number=st.integers(0, 9), code=st.sampled_from([0, 0, 1]))
    def command_ends(self, number, code):
        running = self.world.members()
        if running:
            member, node = running[number % len(running)]
            self.world.nodes[node].end(member, code)

    @rule(number=SMALL, index=SMALL)
    def ended(self, number, index):
        gangs = [gang for gang in self.world.scheduler.registry.gangs.values() if not gang.job]
        if gangs:
            gang = gangs[number % len(gangs)]
            self.world.scheduler.reservations.end(gang, [index % len(gang.members)])

    @rule(number=SMALL)
    def evicted(self, number):
        gangs = list(self.world.scheduler.registry.gangs.values())
        if gangs:
            gang = gangs[number % len(gangs)]
            self.world.scheduler.applier.evict(gang, gang.among(PLACING, HELD), "preempt")

    @rule(name=st.sampled_from("ab"), weight=st.integers(1, 4), cpus=st.none() | st.just(3.0))
    def queue_made(self, name, weight, cpus):
        fields = QueueFields(weight=weight, capability={"CPU": cpus} if cpus else None)
        known = self.world.scheduler.queues.table.get(name) is not None
        self.world.ask((UpdateQueue if known else CreateQueue)(name, fields))

    @rule(name=st.sampled_from("ab"))
    def queue_deleted(self, name):
        try:
            self.world.ask(DeleteQueue(name))
        except PhalanxError:
            return

    # ---- nodes

    @rule(cpus=st.integers(1, 4), disk=st.booleans())
    def node_joins(self, cpus, disk):
        if len(self.world.nodes) < 4:
            self.made += 1
            self.world.add(f"n{self.made}", CPU=cpus, **({"disk": 1.0} if disk else {}))

    @rule(number=SMALL)
    def node_dies(self, number):
        names = sorted(self.world.nodes)
        if names:
            self.world.kill(names[number % len(names)])

    @rule(number=SMALL)
    def node_drains(self, number):
        names = sorted(self.world.nodes)
        if names:
            node = self.world.nodes[names[number % len(names)]]
            node.is_draining = True
            self.world.head.nodes.hold(node.name, DRAIN, Hold(reason="by hand"))

    @rule(number=SMALL, cpus=st.integers(1, 4))
    def others_take(self, number, cpus):
        """Let work outside of gangs take an amount of a node, until the node's next report."""
        names = sorted(self.world.nodes)
        if names:
            node = self.world.nodes[names[number % len(names)]]
            report = node.report()
            report.available = {"CPU": max(report.available.get("CPU", 0.0) - cpus, 0.0)}
            self.world.head.on_message(node.prefix, report)

    # ---- time and messages

    @rule(count=st.integers(1, 4))
    def delivered(self, count):
        for _ in range(min(count, len(self.world.on_the_way))):
            self.world.deliver(self.world.on_the_way.pop(0))

    @rule(number=SMALL)
    def out_of_order(self, number):
        if self.world.on_the_way:
            at = number % len(self.world.on_the_way)
            letter = self.world.on_the_way[at]
            if not isinstance(
                letter.message, MemberNews
            ):  # these a node repeats until they are there
                self.world.deliver(self.world.on_the_way.pop(at))

    @rule(number=SMALL, twice=st.booleans())
    def lost_or_twice(self, number, twice):
        if self.world.on_the_way:
            at = number % len(self.world.on_the_way)
            letter = self.world.on_the_way[at]
            if isinstance(letter.message, MemberNews):
                return
            if twice:
                self.world.on_the_way.append(letter)
            else:
                del self.world.on_the_way[at]

    @rule(seconds=st.sampled_from([0.01, 0.1, 1.5]))
    def time_passes(self, seconds):
        self.world.pass_time(seconds)

    @rule()
    def decided(self):
        self.world.now += 0.1
        self.world.cycle()

    @rule()
    def head_restarts(self):
        news = [one for one in self.world.on_the_way if isinstance(one.message, MemberNews)]
        self.world.restart()
        self.world.on_the_way += news

    # ---- what always holds

    @invariant()
    def as_read(self):
        assert next(differences(self.world.scheduler), None) is None

    @invariant()
    def as_decided_on_what_is_read(self):
        batch, now = self.world.scheduler, self.world.now
        batch.cycles.show_next()
        truth = batch.cache.truth(now, now)
        read = batch.snapshots.read_cluster()
        keep_nominations(batch.cache.cluster(now, now), read)
        expected = run_cycle(truth, cluster=read, explains=False)
        times = CycleTimes(Meter(), ManualClock(now), None)
        plan = batch.cache.decide(now, now, times, evicts=True)
        assert plan.binds == expected.binds
        assert plan.evicted == expected.evicted
        assert plan.pipelined == expected.pipelined

    def teardown(self):
        self.world.heal()
        self.world.check_settled()


def test_the_cache_follows_whatever_happens():
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            deadline=None,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_a_gang_that_is_over_does_not_wake_when_its_jobs_next_one_has_its_name():
    world = JobWorld()
    world.add("n0", CPU=2)
    batch = world.scheduler
    process = Process(command=("true",), requests=(("CPU", 1.0),))
    group = TaskGroup(name="a", replicas=1, template=Template(processes=(process,)))
    world.ask(ApplyManifests([job_manifest(JobSpec(name="j", groups=(group,)))]))
    (first,) = batch.registry.gangs.values()
    for _ in range(20):  # each time for longer
        batch.reservations.rest(first)
    assert next(differences(batch), None) is None
    world.ask(CommandJob("default/j", "suspend"))
    assert next(differences(batch), None) is None
    world.ask(CommandJob("default/j", "resume"))
    for _ in range(3):
        world.now += 0.1
        world.cycle()
        world.run()
    (second,) = batch.registry.gangs.values()
    assert (second is first, world.states(second)) == (False, ["running"])
    assert next(differences(batch), None) is None
    world.now += 3600.0
    assert next(differences(batch), None) is None
