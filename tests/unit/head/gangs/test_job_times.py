"""Times of jobs at a head: the limits of queues, what nodes are told, and what a restart
changes.
"""

from __future__ import annotations

import pytest
from tests.fuzz.world import PeopleWorld
from tests.present import present
from tests.world.cluster import one_node

from phalanx.api.new_manifests import job_manifest
from phalanx.errors import JobCommandError, QueueUnavailableError
from phalanx.model.jobs import states as st
from phalanx.model.jobs.spec import JobSpec, Policy, Process, TaskGroup, Template
from phalanx.model.jobs.timing import Moment, Timing, WarningSignal
from phalanx.protocol.bundle_messages import EndMember, MemberNews, WarnMember
from phalanx.protocol.requests.gangs import Explain, ListGangs
from phalanx.protocol.requests.jobs import (
    ApplyManifests,
    CommandJob,
    GetJob,
    ListJobs,
    UpdateJob,
)


def spec(name="job", cpus=2.0, queue="default", **timing):
    process = Process(command=("true",), requests=(("CPU", cpus),))
    group = TaskGroup(name="a", template=Template(processes=(process,)))
    return JobSpec(name=name, queue=queue, groups=(group,), timing=Timing(**timing))


def submit(world, made):
    return world.ask(ApplyManifests([job_manifest(made)]))


def state(world, name="job"):
    return world.ask(GetJob(name)).state


def runs(world, order, ran_s=0.0):
    world.hear("n0", MemberNews(order.group, order.index, order.attempt, log="a", ran_s=ran_s))


@pytest.fixture
def world():
    world = one_node(2)
    world.queue("lab", default_time_s=60.0, max_time_s=3600.0)
    return world


# ---- what queues say -----------------------------------------------------------------------------


def test_a_queue_gives_its_default_and_refuses_more_than_its_maximum(world):
    submit(world, spec(queue="lab"))
    assert world.ask(GetJob("job")).time_limit_s == 60
    with pytest.raises(JobCommandError, match=r"time=1h1s: queue lab allows at most 1h"):
        submit(world, spec("more", queue="lab", limit_s=3601.0))
    submit(world, spec("all", queue="lab", limit_s=3600.0))


def test_what_stands_above_a_queue_bounds_it_too(world):
    world.queue("above", max_time_s=100.0)
    world.queue("below", parent="above", max_time_s=1000.0)
    world.queue("other", parent="above", default_time_s=50.0)
    submit(world, spec("one", queue="below"))
    submit(world, spec("two", queue="other"))
    limits = {row.name: row.time_limit_s for row in world.ask(ListJobs())}
    assert limits == {"one": 100, "two": 50}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"default_time_s": 61.0, "max_time_s": 60.0}, "defaultTime is 1m1s, above maxTime"),
        ({"max_time_s": -1.0}, "maxTime must be more than 0"),
        ({"max_time_s": float("nan")}, "maxTime must be more than 0"),
        ({"default_time_s": 2e9}, "defaultTime must be more than 0"),
    ],
)
def test_a_queue_s_times_are_checked(world, fields, said):
    with pytest.raises(JobCommandError, match=said):
        world.queue("wrong", **fields)


# ---- what nodes are told -------------------------------------------------------------------------


def test_members_know_when_their_time_is_over(world):
    submit(world, spec(limit_s=60.0))
    world.rounds(5)
    [order] = world.started()
    env = order.commands[0].variables
    assert env["PHALANX_RESTART"] == "0"
    assert int(env["PHALANX_END_AT"]) == int(world.now) + 60 - 4  # it was placed in the first round
    world.ask(CommandJob("job", "cancel"))
    submit(world, spec("free"))
    world.hear("n0", MemberNews(order.group, order.index, order.attempt, 143, "", "a"))
    world.rounds(5)
    assert "PHALANX_END_AT" not in world.started()[1].commands[0].variables


def ticks(world, count):
    for _ in range(count):
        world.pass_time(1.0)
        world.cycle()
        world.run()


def test_nodes_send_the_signal_and_end_members(world):
    submit(world, spec(limit_s=60.0, signal=WarningSignal(name="USR1", before_s=20.0)))
    world.rounds(5)
    [order] = world.started()
    runs(world, order)
    ticks(world, 39)
    assert not [m for m in world.orders if isinstance(m, WarnMember)]
    ticks(world, 1)
    warning = WarnMember(order.group, order.index, order.attempt, 10)
    assert [m for m in world.orders if isinstance(m, WarnMember)] == [warning]
    ticks(world, 19)
    assert not [m for m in world.orders if isinstance(m, EndMember)]
    ticks(world, 1)
    assert [m for m in world.orders if isinstance(m, EndMember)]
    world.hear("n0", MemberNews(order.group, order.index, order.attempt, 0, "", "a"))
    world.rounds(5)
    assert state(world) == st.TIMED_OUT
    assert world.held() == {}


def test_a_node_that_was_away_hears_of_the_signal_again(world):
    submit(world, spec(limit_s=60.0, signal=WarningSignal(name="USR1", before_s=50.0)))
    world.rounds(5)
    [order] = world.started()
    runs(world, order)
    ticks(world, 15)
    world.rejoin(world.nodes["n0"])
    assert len([m for m in world.orders if isinstance(m, WarnMember)]) == 2


# ---- holding and changing ------------------------------------------------------------------------


def test_a_held_job_leaves_the_queue_to_others(world):
    submit(world, spec("first"))
    world.rounds(5)
    submit(world, spec("second"))
    submit(world, spec("third"))
    world.ask(CommandJob("second", "hold"))
    world.rounds(5)
    rows = {row.name: (row.position, row.reason) for row in world.ask(ListJobs())}
    assert rows["second"] == (None, "it is held")
    assert rows["third"][0] == 1
    explained = world.ask(Explain("second"))
    assert (explained.waits, explained.reasons[0].change) == (True, "phalanx release second")
    world.ask(CommandJob("second", "release"))
    world.rounds(5)
    positions = {row.name: row.position for row in world.ask(ListJobs())}
    assert positions["second"] == 2, "its age counts from its release"


def test_a_job_that_waits_moves_to_another_queue_and_priority(world):
    submit(world, spec("first"))
    world.rounds(5)
    submit(world, spec("second"))
    submit(world, spec("third"))
    world.rounds(5)
    row = world.ask(UpdateJob("third", queue="lab", priority=3))
    assert (row.queue, row.priority, row.time_limit_s) == ("lab", 3, 60)
    world.rounds(5)
    gangs = {row.name: (row.queue, row.priority) for row in world.ask(ListGangs())}
    assert gangs == {"first": ("default", 0), "second": ("default", 0), "third": ("lab", 3)}
    assert [(g.name, g.queue) for g in world.scheduler.registry.of_queue("lab").values()]


def test_notes_of_a_job_that_waits_are_set_and_its_place_stays(world):
    submit(world, spec("first"))
    world.rounds(5)
    submit(world, spec("second"))
    submit(world, spec("third"))
    world.rounds(5)
    world.ask(UpdateJob("second", annotations={"a": "1", "b": "2"}))
    row = world.ask(UpdateJob("second", annotations={"b": "3"}))
    assert row.annotations == {"a": "1", "b": "3"}
    world.rounds(5)
    positions = {row.name: row.position for row in world.ask(ListJobs())}
    assert (positions["second"], positions["third"]) == (1, 2)


@pytest.mark.parametrize(
    ("request_", "error", "said"),
    [
        (UpdateJob("second", queue="none"), QueueUnavailableError, "there is no queue 'none'"),
        (
            UpdateJob("second", queue="lab", time_limit_s=4000.0),
            JobCommandError,
            "at most 1h",
        ),
        (UpdateJob("second", time_limit_s=-1.0), JobCommandError, "time must be more than 0"),
        (
            UpdateJob("second", time_limit_s=float("nan")),
            JobCommandError,
            "time must be more than 0",
        ),
        (UpdateJob("second", priority=2**40), JobCommandError, "a priority must be at most"),
        (UpdateJob("first", priority=1), JobCommandError, "first runs"),
        (
            UpdateJob("second", annotations={"note": "x" * 300_000}),
            JobCommandError,
            "the most is 262,144",
        ),
        (CommandJob("first", "hold"), JobCommandError, "only a waiting job can be held"),
    ],
)
def test_a_change_that_cannot_be_is_refused_and_changes_nothing(world, request_, error, said):
    submit(world, spec("first"))
    world.rounds(5)
    runs(world, world.started()[0])
    submit(world, spec("second"))
    before = [row.as_dict() for row in world.ask(ListJobs())]
    with pytest.raises(error, match=said):
        world.ask(request_)
    assert [row.as_dict() for row in world.ask(ListJobs())] == before


def test_a_deadline_ends_what_waits(world):
    submit(world, spec("first"))
    world.rounds(5)
    submit(world, spec("second", limit_s=60.0, deadline=Moment(after_s=100.0)))
    ticks(world, 45)
    assert state(world, "second") == st.DEADLINE
    assert "second" not in {row.name for row in world.ask(ListGangs())}


# ---- a head that comes back ----------------------------------------------------------------------


@pytest.fixture
def stored():
    return PeopleWorld()


def apply(world, made):
    world.ask(ApplyManifests([job_manifest(made)]))


def record(world, name="job"):
    return present(world.scheduler.jobs.table.get(f"default/{name}"))


def test_a_restart_keeps_what_was_asked_of_time(stored):
    apply(stored, spec("held", cpus=1.0, is_held=True))
    apply(stored, spec("later", cpus=1.0, begin=Moment(after_s=30.0)))
    apply(stored, spec("runs", cpus=1.0, limit_s=40.0))
    stored.rounds()
    before = {n: record(stored, n).spec for n in ("held", "later", "runs")}
    submitted = record(stored, "later").submitted
    stored.restart()
    stored.rounds()
    assert {n: record(stored, n).spec for n in before} == before
    assert record(stored, "held").is_held
    assert record(stored, "later").submitted == submitted
    assert not record(stored, "later").count(st.PENDING, st.RUNNING)
    stored.rounds(30)
    assert record(stored, "later").count(st.PENDING, st.RUNNING)
    stored.rounds(20)
    assert record(stored, "runs").state == st.TIMED_OUT
    assert record(stored, "held").state == st.PENDING


@pytest.mark.parametrize("is_half_written", [False, True])
def test_a_job_that_was_changed_just_before_the_head_died_is_where_it_was_put(
    stored, is_half_written
):
    """This also holds if only the job's row was written, and its gang's row was not."""
    for name in ("one", "other"):
        apply(stored, spec(name, cpus=4.0))
    stored.rounds()
    apply(stored, spec("second", cpus=4.0))
    gangs = dict(stored.journal.disk.tables["gangs"])
    stored.ask(UpdateJob("second", priority=7))
    if is_half_written:
        stored.journal.disk.tables["gangs"] = gangs
    stored.restart()
    stored.rounds()
    gang = present(stored.scheduler.jobs.gang_of("default/second"))
    assert (gang.priority, gang.revision) == (7, 1)
    assert gang.waits or record(stored, "second").state == st.RUNNING


def test_a_member_that_was_to_start_again_when_the_time_was_over(world):
    """The member has just failed. It still holds its place, although this attempt is over."""
    process = Process(command=("true",), requests=(("CPU", 1.0),))
    again = (Policy(action=st.RESTART_POD, events=(st.POD_FAILED,)),)
    group = TaskGroup(name="a", replicas=2, template=Template(processes=(process,)))
    timed = JobSpec(name="job", groups=(group,), policies=again, timing=Timing(limit_s=10.0))
    submit(world, timed)
    world.rounds(5)
    first, second = world.started()
    runs(world, first)
    runs(world, second)
    world.now += 10.0
    world.hear("n0", MemberNews(first.group, first.index, first.attempt, 1, "", "a"))
    world.rounds(1)
    [end] = [order for order in world.orders if isinstance(order, EndMember)]
    assert end.index == second.index
    world.hear("n0", MemberNews(second.group, second.index, second.attempt, 143, "", "a"))
    assert state(world) == st.TIMED_OUT
