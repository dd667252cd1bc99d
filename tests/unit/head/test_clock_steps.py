"""The clock of the head's machine is set ahead and back. Lengths of time do not change, and moments
that people wrote are compared with the clock as it is now.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs
from tests.effort import examples
from tests.present import present
from tests.unit.head.gangs.test_what_people_see import settle
from tests.world.clock import ManualClock
from tests.world.cluster import World
from tests.world.store import Journal

from phalanx.api.new_manifests import job_manifest
from phalanx.errors import JobNotFoundError
from phalanx.head.actors.table import ActorRecord
from phalanx.head.clock import ClockAnchor, WatchedClock
from phalanx.model.jobs.spec import CronSpec, JobSpec, Policy, Process, TaskGroup, Template
from phalanx.model.jobs.timing import Moment, Timing
from phalanx.model.own_time import OwnTime
from phalanx.model.reservations import Reservation
from phalanx.observe.events import EventQuery
from phalanx.protocol.bundle_messages import MemberNews
from phalanx.protocol.cluster_messages import EndWork
from phalanx.protocol.requests.cluster import DrainNode
from phalanx.protocol.requests.events import ListEvents
from phalanx.protocol.requests.jobs import ApplyManifests, GetJob, ListJobs, Manifest
from phalanx.protocol.requests.request import Asker, Role, encode_request, read_result
from phalanx.protocol.requests.reservations import ListReservations, Reserve
from phalanx.protocol.requests.shares import GetShares

DAY_S = 86_400.0
FAR_S = 400 * DAY_S
STEPS = [FAR_S, -FAR_S, 3600.0, -3600.0, 5.0, -5.0]


class SteppedWorld(World):
    """A head with one node of two CPUs, from the year 2026 on."""

    def __init__(self, **options: Any) -> None:
        super().__init__(journal=Journal(is_slow=True), **options)
        self.clock.ahead_s = 1.79e9
        self.restart()
        self.add("n1", CPU=2.0)
        self.goes_on(1.0)

    def step(self, step_s: float) -> None:
        """Set only the wall-clock time ahead or back."""
        self.clock.ahead_s += step_s

    def ask(self, request: Any) -> Any:
        """Return the answer to a request. The head sends it when all that it depends on is
        written.
        """
        replies: list[Any] = []
        asker: Asker[Any] = Asker(Role.PROCESS, bytes(16), lambda *reply: replies.append(reply))
        handlers = self.head.answering.handlers_of(request.kind)
        handlers.answer(request.kind, encode_request(request), asker)
        self.write()
        return read_result(request, *replies[0])

    def goes_on(self, seconds: float, every_s: float = 1.0) -> None:
        """Let this much time pass, with a tick of the head every `every_s` seconds."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + every_s, end)
            self.head.on_tick(self.now)
            self.head.on_round(self.now)
            self.write()
            self.run()

    def settle(self) -> None:
        """Let waiting jobs run where they fit."""
        for _ in range(3):
            settle(self)
            self.write()

    def restart(self) -> None:
        self.write()
        super().restart()

    def submit(self, name: str = "job", cpus: float = 1.0, **fields: Any) -> None:
        self.ask(ApplyManifests([job_manifest(made(name, cpus, **fields))]))

    def full(self) -> None:
        """Run another job, which takes all remaining CPUs."""
        self.submit("full", cpus=2.0)
        self.settle()

    def state(self, name: str = "job") -> str:
        return str(self.ask(GetJob(name)).state)

    def ends(self, name: str = "job", code: int = 0) -> None:
        gang = present(self.scheduler.jobs.gang_of(f"default/{name}"))
        attempt = gang.members[0].attempt
        self.hear("n1", MemberNews(gang.gang_id, 0, attempt, code, log="x"))
        self.settle()

    def excursion(self, step_s: float = FAR_S) -> None:
        """Set the clock wrong for half a minute."""
        self.step(step_s)
        self.goes_on(30.0)
        self.step(-step_s)

    def names(self) -> set[str]:
        return {row.name for row in present(self.ask(ListJobs()))}


def made(name: str, cpus: float = 1.0, **fields: Any) -> JobSpec:
    process = Process(command=("true",), requests=(("CPU", cpus),))
    template = Template(processes=(process,), restart="Never")
    group = TaskGroup(name="a", replicas=1, template=template)
    return JobSpec(name=name, groups=(group,), min_available=1, user="ann", **fields)


# ---- the clock itself ----------------------------------------------------------------------------


def hands() -> ManualClock:
    """Return the clock of a machine that has run for 50 seconds."""
    return ManualClock(50.0, 950.0)


@pytest.mark.parametrize("step_s", STEPS)
def test_a_step_is_hidden_until_it_is_taken(step_s):
    machine = hands()
    clock = WatchedClock(machine)
    machine.time_s += 7.0
    machine.ahead_s += step_s
    assert (clock.wall(), clock.now()) == (1007.0, 57.0)
    machine.time_s += 3.0
    assert clock.wall() == 1010.0
    assert clock.take_step() == pytest.approx(step_s)
    assert clock.wall() == machine.wall()
    assert clock.take_step() == 0.0


def test_a_clock_that_is_slewed_is_followed():
    machine = hands()
    clock = WatchedClock(machine)
    for _ in range(100):
        machine.time_s += 1.0
        machine.ahead_s += 0.1
        assert clock.wall() == machine.wall()
        assert clock.take_step() == 0.0


def test_a_pause_between_two_readings_is_no_step():
    readings = iter([50.0, 51.0, 71.0, 71.0, 71.0, 71.0])
    wall = iter([1000.0, 1021.0, 1021.0])
    reading: Any = SimpleNamespace(now=lambda: next(readings), wall=lambda: next(wall))
    reading.monotonic = reading.now
    clock = WatchedClock(reading)
    assert clock.take_step() == 0.0


def test_a_pause_of_the_process_is_no_step_then_or_for_the_next_head():
    machine = hands()

    def of_process() -> Any:
        own = OwnTime(machine.monotonic)
        return SimpleNamespace(now=own, wall=machine.wall, monotonic=machine.monotonic)

    clock = WatchedClock(of_process(), "this")
    machine.time_s += 3600.0
    assert clock.now() < 60.0
    assert (clock.take_step(), clock.wall()) == (0.0, 4600.0)
    after = WatchedClock(of_process(), "this", clock.anchor())
    assert (after.take_step(), after.wall()) == (0.0, 4600.0)


@pytest.mark.parametrize(("boot", "expected_s"), [("this", 30.0), ("another", 0.0), ("", 0.0)])
def test_the_next_head_on_the_same_boot_knows_of_a_step_meanwhile(boot, expected_s):
    machine = hands()
    kept = WatchedClock(machine, "this").anchor()
    assert kept == ClockAnchor("this", 950.0)
    machine.time_s += 10.0
    machine.ahead_s += 30.0
    assert WatchedClock(machine, boot, kept).take_step() == expected_s


# ---- what a head does ----------------------------------------------------------------------------


def test_a_step_is_an_event():
    world = SteppedWorld()
    world.excursion()
    world.goes_on(1.0)
    page = present(world.ask(ListEvents(EventQuery(kinds=["clock-stepped"]))))
    assert [one.why for one in page.events][-2:] == [
        "the clock of the head's machine went ahead by 400d",
        "the clock of the head's machine went back by 400d",
    ]


@pytest.mark.parametrize("ends_meanwhile", [True, False])
@pytest.mark.parametrize("step_s", STEPS)
def test_what_runs_meanwhile_is_billed_for_what_it_ran(step_s, ends_meanwhile):
    world = SteppedWorld()
    world.submit()
    world.settle()
    world.step(step_s)
    world.goes_on(30.0)
    if not ends_meanwhile:
        world.step(-step_s)
    world.ends()
    world.goes_on(1.0)
    [row] = present(world.ask(GetShares("default")))
    assert 30.0 < row.use < 150.0
    assert world.ask(GetJob("job")).state == "Completed"


@pytest.mark.parametrize("is_submitted_meanwhile", [False, True])
@pytest.mark.parametrize("step_s", STEPS)
def test_a_deadline_ends_what_waits_when_so_much_time_has_gone_by(step_s, is_submitted_meanwhile):
    world = SteppedWorld()
    if is_submitted_meanwhile:
        world.step(step_s)
        world.goes_on(1.0)
    world.full()
    world.submit(cpus=2.0, timing=Timing(deadline=Moment(after_s=100.0)))
    world.goes_on(20.0)
    world.step(-step_s if is_submitted_meanwhile else step_s)
    world.goes_on(79.0)
    assert world.state() == "Pending"
    world.goes_on(2.0)
    assert world.state() == "Deadline"


@pytest.mark.parametrize("step_s", STEPS)
def test_what_has_ended_is_forgotten_after_its_time(step_s):
    world = SteppedWorld()
    world.submit(ttl_s=200.0)
    world.settle()
    world.ends()  # a minute ago
    world.goes_on(50.0)
    world.step(step_s)
    world.goes_on(80.0)
    assert world.state() == "Completed"
    world.goes_on(20.0)
    with pytest.raises(JobNotFoundError):
        world.state()


@pytest.mark.parametrize("step_s", STEPS)
def test_a_policy_acts_after_its_timeout(step_s):
    world = SteppedWorld()
    policy = Policy(events=("PodPending",), action="TerminateJob", timeout_s=100.0)
    world.full()
    world.submit(cpus=2.0, policies=(policy,))
    world.goes_on(50.0)
    world.step(step_s)
    world.goes_on(45.0)
    assert world.state() == "Pending"
    world.goes_on(10.0)
    assert world.state() == "Terminated"


@pytest.mark.parametrize("step_s", STEPS)
def test_a_node_is_emptied_as_long_after_it_was_drained_as_was_said(step_s):
    world = SteppedWorld()
    world.ask(DrainNode("n1", "it is old", within_s=100.0))
    world.step(step_s)
    world.goes_on(95.0)
    assert not [one for _, one in world.told if isinstance(one, EndWork)]
    world.goes_on(10.0)
    assert [one for _, one in world.told if isinstance(one, EndWork)]


@pytest.mark.parametrize("step_s", STEPS)
def test_a_death_of_a_node_counts_against_an_actor_for_as_long(step_s):
    world = SteppedWorld()
    record = ActorRecord(
        actor=b"a" * 16, owner=b"o" * 16, job=b"j" * 4, creation=b"c", class_name="A",
        place={"CPU": 1.0}, node_deaths=[world.head.clock.wall()],
    )  # fmt: skip
    world.head.actor_table.register(record)
    world.step(step_s)
    world.goes_on(30.0)
    for _ in range(2):
        [died_at] = present(world.head.actor_table.get(b"a" * 16)).node_deaths
        assert world.head.clock.wall() - died_at == pytest.approx(30.0, abs=0.1)
        world.restart()


@pytest.mark.parametrize("step_s", STEPS)
def test_an_actor_has_lived_for_as_long(step_s):
    world = SteppedWorld()
    table = world.head.actor_table
    for name in (b"a", b"b"):
        table.register(
            ActorRecord(
                actor=name * 16, owner=b"o" * 16, job=b"j" * 4, creation=b"c", class_name="A"
            )
        )
        table.placed(name * 16, b"w")
        table.ready(name * 16, b"w", 7)
    world.goes_on(10.0)
    table.kill(b"b" * 16, no_restart=True)
    world.step(step_s)
    world.goes_on(30.0)
    dead = present(world.head.actor_table.get(b"b" * 16))
    assert world.head.clock.wall() - dead.ended == pytest.approx(30.0, abs=0.1)
    for _ in range(2):
        lives = present(world.head.actor_table.get(b"a" * 16))
        assert world.head.clock.wall() - lives.began == pytest.approx(40.0, abs=0.1)
        assert lives.ended == 0.0
        world.restart()


@pytest.mark.parametrize("step_s", STEPS)
def test_a_reservation_that_has_begun_lasts_as_long_as_was_said(step_s):
    world = SteppedWorld()
    world.ask(Reserve(Reservation(name="r", length_s=100.0, nodes=("n1",))))
    world.goes_on(5.0)
    world.step(step_s)
    world.goes_on(90.0)
    [row] = present(world.ask(ListReservations()))
    assert row.state == "active"
    world.goes_on(10.0)
    assert world.ask(ListReservations()) == []


def test_one_that_recurs_comes_again_after_a_clock_was_far_ahead():
    world = SteppedWorld()
    daily = Reservation(name="r", schedule="@daily", length_s=3600.0, nodes=("n1",))
    world.ask(Reserve(daily))
    world.step(FAR_S)
    world.goes_on(2 * DAY_S, every_s=3600.0)
    world.step(-FAR_S)
    world.goes_on(10.0)
    [row] = present(world.ask(ListReservations()))
    assert row.begin <= world.now + world.clock.ahead_s + DAY_S


@pytest.mark.parametrize("step_s", STEPS)
def test_the_scheduler_sees_no_other_lengths_of_time(step_s):
    world = SteppedWorld()
    world.submit("runs", cpus=2.0)
    world.settle()
    world.submit("waits", cpus=2.0)
    world.goes_on(10.0)

    def lengths() -> list[float]:
        truth = world.scheduler.snapshots.truth()
        moments = [group.created for group in truth.podgroups]
        moments += [group.started for group in truth.podgroups]
        moments += [task.started for task in truth.tasks]
        return [truth.now - one for one in moments if one is not None]

    before = lengths()
    world.step(step_s)
    world.goes_on(1.0)
    assert lengths() == pytest.approx([one + 1.0 for one in before])
    batch = world.scheduler
    kept = batch.cache.cluster(world.now, world.now + world.clock.ahead_s)
    assert kept.started == [task.started for task in batch.snapshots.truth().tasks]


# ---- what is made by times of day ----------------------------------------------------------------


def cron_world(schedule: str) -> SteppedWorld:
    world = SteppedWorld()
    cron = CronSpec(name="c", schedule=schedule, job=made("c"), concurrency="Replace")
    world.ask(ApplyManifests([Manifest("CronJob", msgspec.msgpack.encode(cron))]))
    return world


def begun(world: SteppedWorld, seconds: float) -> list[str]:
    """Return the names of the jobs that the cron job submits within this time."""
    record = present(world.scheduler.job_requests.crons.table.get("default/c"))
    before = len(record.history)
    world.goes_on(seconds, every_s=5.0)
    return [one.reason for one in record.history[before:] if one.new == "Scheduled"]


@pytest.mark.parametrize("step_s", STEPS)
def test_a_cron_job_goes_on_after_the_clock_was_wrong(step_s):
    world = cron_world("* * * * *")
    assert begun(world, 600.0)
    world.excursion(step_s)
    begun(world, 60.0)
    names = begun(world, 600.0)
    assert len(names) == 10, "it runs every minute"
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("step_s", STEPS)
def test_every_so_often_goes_by_what_has_really_gone_by(step_s):
    world = cron_world("@every 100s")
    before = len(begun(world, 1000.0))
    world.excursion(step_s)
    assert before == 10
    assert len(begun(world, 970.0)) in (9, 10)


@pytest.mark.parametrize("step_s", STEPS)
def test_a_cron_job_goes_on_where_the_clock_was_set_while_there_was_no_head(step_s):
    world = cron_world("* * * * *")
    world.step(step_s)
    world.goes_on(30.0)
    world.step(-step_s)
    world.restart()
    world.add("n1", CPU=2.0)
    begun(world, 60.0)
    assert len(begun(world, 600.0)) == 10


def test_lengths_of_time_survive_a_head_that_was_away_while_the_clock_was_set():
    world = SteppedWorld()
    world.full()
    world.submit(cpus=2.0, timing=Timing(deadline=Moment(after_s=100.0)))
    world.goes_on(20.0)
    world.step(FAR_S)
    world.restart()
    world.add("n1", CPU=2.0)
    world.goes_on(79.0)
    assert world.state() == "Pending"
    world.goes_on(2.0)
    assert world.state() == "Deadline"


# ---- whatever happens ----------------------------------------------------------------------------

_MOVE = hs.one_of(
    hs.tuples(hs.just("time"), hs.integers(1, 6).map(lambda tens: 10 * tens)),
    hs.tuples(hs.just("step"), hs.sampled_from(STEPS)),
    hs.tuples(hs.sampled_from(["waits", "runs", "end", "restart"]), hs.just(0)),
)


def lived(moves: list[tuple[str, float]], *, steps: bool) -> list[Any]:
    """Return everything that a head did, with all times as lengths.

    After a step of the clock the head writes all moments again. Some numbers are not written at
    each change (how long jobs ran, what users used), so with a step less of them is lost when the
    head dies later. These numbers are compared only until the first restart.
    """
    world = SteppedWorld()
    told: list[Any] = []
    is_first_head = True
    for number, (move, much) in enumerate(moves):
        if move == "time":
            world.goes_on(much, every_s=10.0)
        elif move == "step":
            world.step(much if steps else 0.0)
        elif move == "waits":
            deadline = Timing(deadline=Moment(after_s=70.0), begin=Moment(after_s=20.0))
            world.submit(f"w{number}", cpus=2.0, timing=deadline, ttl_s=60.0)
        elif move == "runs":
            world.submit(f"r{number}", timing=Timing(limit_s=90.0), ttl_s=60.0)
            world.settle()
        elif move == "restart":
            world.restart()
            world.add("n1", CPU=2.0)
            is_first_head = False
        else:
            running = [row.name for row in present(world.ask(ListJobs())) if row.state == "Running"]
            for name in running[:1]:
                world.ends(name)
        rows = present(world.ask(ListJobs()))
        told.append([(row.name, row.state, round(row.age_s)) for row in rows])
        shares = present(world.ask(GetShares("default")))
        told.append([(row.user, row.rate) for row in shares])
        if is_first_head:
            told.append([round(row.ran_s) for row in rows])
            told.append([round(row.use) for row in shares])
    return told


@settings(max_examples=examples(40), deadline=None)
@given(hs.lists(_MOVE, max_size=10))
def test_a_head_does_the_same_whatever_steps_its_clock_makes(moves):
    assert lived(moves, steps=True) == lived(moves, steps=False)
