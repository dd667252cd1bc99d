"""Reservations and licenses at a head: they are made, refused, begun, ended, and kept over a
restart.
"""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.world import PeopleWorld
from tests.world.cluster import one_node

from phalanx.api.new_manifests import job_manifest
from phalanx.errors import JobCommandError
from phalanx.head.gangs.cycles import configuration
from phalanx.head.nodes.record import NodeRecord
from phalanx.head.reservations import licenses as licenses_module
from phalanx.head.reservations import table as table_module
from phalanx.head.reservations.booking import Book
from phalanx.head.reservations.record import WINDOWS, ReservationRecord, windows
from phalanx.head.reservations.table import ReservationTable
from phalanx.model.jobs.spec import JobSpec, Process, TaskGroup, Template
from phalanx.model.jobs.timing import Moment, Timing
from phalanx.model.reservations import Reservation
from phalanx.protocol.bundle_messages import EndMember, MemberNews, StartMember
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.jobs import ApplyManifests, CommandJob, GetJob, UpdateJob
from phalanx.protocol.requests.reservations import (
    DeleteReservation,
    ListLicenses,
    ListReservations,
    Reserve,
    SetLicense,
)
from phalanx.scheduler.cycle.specs import PodGroupSpec, ReservationSpec, Shape, Snapshot, TaskSpec

HOUR = 3600.0
DAY = 24 * HOUR


class Shell:
    """Records the effects that a table requested."""

    def __init__(self):
        self.kept = {}
        self.closed = []
        self.changes = 0

    def keep(self, name, record):
        self.kept[name] = msgspec.msgpack.encode(record) if record is not None else None

    def changed(self):
        self.changes += 1

    def drain_node(self, node_id, reason):
        is_new = node_id not in self.closed
        self.closed += [node_id] if is_new else []
        return is_new

    def end_drain(self, node_id):
        self.closed.remove(node_id)


def node(name, gpus=8.0, **labels):
    totals = {"CPU": 64.0, "GPU": gpus, "memory": 1e12}
    return NodeRecord(
        node_id=name * 8, prefix=b"", host="", port=0, hostname=name, totals=totals, labels=labels
    )


NODES = [node("a", rack="1"), node("b", rack="1"), node("c", rack="2")]


def book(runs=(), reserved=(), nodes=NODES, now=0.0):
    """Return the `Book` of a cluster. `runs`: (job, node, GPUs, until or None)."""
    groups, tasks = [], []
    for job, name, gpus, until in runs:
        limit = None if until is None else until - now
        groups.append(
            PodGroupSpec(name=job, queue="q", run_time_s=limit, started=now, min_member=1)
        )
        shape = Shape(request=(("cpu", gpus), ("nvidia.com/gpu", gpus)))
        tasks.append(TaskSpec(name=job, podgroup=job, shape=shape, node=name * 8, phase="Running"))
    made = Snapshot(config=configuration(), podgroups=tuple(groups), tasks=tuple(tasks), now=now)
    return Book(nodes, lambda: made, reserved)


def kept(name, *places, begin=HOUR, end=2 * HOUR, **given):
    found = tuple((one * 8, ()) for one in places)
    return ReservationSpec(name=name, places=found, windows=((begin, end),), **given)


def asked(**given):
    made = Reservation(name="r", start=Moment(at=HOUR), length_s=HOUR)
    return msgspec.structs.replace(made, **given)


def put(spec, now=0.0, **there):
    shell = Shell()
    table = ReservationTable(shell)
    table.put(spec, book(now=now, **there), now)
    return table.need(spec.name), shell, table


# ---- what is kept --------------------------------------------------------------------------------


def test_nodes_by_name_label_number_and_amount():
    assert set(put(asked(nodes=("a", "cccccc")))[0].places) == {"a" * 8, "c" * 8}
    assert set(put(asked(labels=(("rack", "1"),)))[0].places) == {"a" * 8, "b" * 8}
    assert len(put(asked(node_count=2))[0].places) == 2
    assert set(put(asked(node_count=1, labels=(("rack", "2"),)))[0].places) == {"c" * 8}
    places = put(asked(amounts=(("GPU", 12.0),)))[0].places
    assert [has["nvidia.com/gpu"] for has in places.values()] == [8.0, 4.0]
    assert list(places.values())[1]["cpu"] == 32.0, "half of its CPUs come with half of its GPUs"


def test_what_is_kept_by_another_or_in_use_is_not_chosen():
    reserved = (kept("other", "a"),)
    runs = (("long", "b", 1.0, 2 * HOUR), ("short", "c", 8.0, HOUR))
    assert set(put(asked(node_count=1), runs=runs, reserved=reserved)[0].places) == {"c" * 8}
    later = asked(node_count=3, start=Moment(at=3 * HOUR))
    assert len(put(later, runs=runs, reserved=reserved)[0].places) == 3
    some = put(asked(amounts=(("GPU", 15.0),)), runs=runs, reserved=reserved)[0]
    assert [x["nvidia.com/gpu"] for x in some.places.values()] == [7.0, 8.0]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"nodes": ("x",)}, r"nodes='x': no node has this name; there are a, b, c"),
        ({"labels": (("rack", "9"),)}, r"no node has the labels rack=9"),
        ({"node_count": 4}, r"nodeCount=4: the cluster has 3 such nodes; ask for at most that"),
        ({"amounts": (("GPU", 25.0),)}, r"amounts.GPU=25: the cluster has 24 of GPU"),
        ({"nodes": ("a",)}, r"nodes=a: it cannot be reserved: a is kept by reservation other"),
        ({"nodes": ("b",)}, r"runs on b and has no time limit"),
        ({"node_count": 3}, r"nodeCount=3: it cannot be reserved: .*ion other.*; .* runs on b"),
        ({"start": Moment(at=-HOUR), "nodes": ("c",)}, r"start=.*that is in the past"),
        (
            {"start": Moment(at=HOUR), "end": Moment(at=HOUR - 1), "length_s": None},
            r"end=.*: it would end before it begins; choose a time after",
        ),
        ({"latest": Moment(at=60.0), "nodes": ("c",)}, r"latest=.*: that is before its start"),
    ],
)  # fmt: skip
def test_what_can_never_hold_is_refused(spec, words):
    given = {"node_count": 0, **spec}
    if not (given.get("nodes") or given.get("labels") or given.get("amounts")):
        given["node_count"] = spec.get("node_count", 1)
    runs = (("run", "b", 1.0, None),)
    with pytest.raises(JobCommandError, match=words):
        put(asked(**given), runs=runs, reserved=(kept("other", "a"),))


def test_what_recurs_before_it_ends_is_refused():
    spec = asked(start=None, schedule="0 * * * *", nodes=("a",), length_s=2 * HOUR)
    with pytest.raises(JobCommandError, match=r"length=2h: it would begin again before it"):
        put(spec)
    with pytest.raises(JobCommandError, match="this time never comes"):
        put(asked(start=None, schedule="0 0 30 2 *", nodes=("a",)))


def test_a_maintenance_may_meet_others_and_jobs_may_run_on_into_it():
    spec = asked(nodes=("a", "b"), maintenance=True, ignores_jobs=True)
    runs = (("run", "b", 1.0, None),)
    assert len(put(spec, runs=runs, reserved=(kept("other", "a"),))[0].places) == 2


def test_a_flexible_start_is_the_first_at_which_it_can_be_kept():
    spec = asked(node_count=3, latest=Moment(at=9 * HOUR))
    runs = (("run", "b", 1.0, 1.5 * HOUR),)
    record, _, _ = put(spec, runs=runs, reserved=(kept("other", "a"),))
    assert (record.start, record.length_s) == (2 * HOUR, HOUR)
    with pytest.raises(JobCommandError, match="it cannot be reserved"):
        put(msgspec.structs.replace(spec, latest=Moment(at=1.2 * HOUR)), runs=runs)


def test_a_node_that_is_gone_is_replaced_or_found_again_by_its_name():
    record, _, table = put(asked(node_count=2))
    gone = next(iter(record.places))
    left = [one for one in NODES if one.node_id != gone]
    table.nodes_changed(lambda name: book(nodes=left), 0.0)
    assert len(record.places) == 2
    assert gone not in record.places
    record, _, table = put(asked(nodes=("a",)))
    again = msgspec.structs.replace(NODES[0], node_id="e" * 8)
    table.nodes_changed(lambda name: book(nodes=[again]), 0.0)
    assert list(record.places) == ["e" * 8]


# ---- time ----------------------------------------------------------------------------------------


def test_it_begins_and_ends_and_is_forgotten():
    record, shell, table = put(asked(nodes=("a",)))
    seen = []
    for now in (HOUR - 1, HOUR, 2 * HOUR):
        table.tick(now)
        seen.append(record.begun)
    assert seen == [None, HOUR, None]
    assert table.all() == []
    assert shell.kept == {"r": None}


def test_a_clock_that_is_set_back_ends_nothing_and_begins_nothing_anew():
    record, _, table = put(asked(nodes=("a",)))
    table.tick(1.5 * HOUR)
    for now in (1.5 * HOUR, 0.0):
        table.tick(now)
        assert table.specs(now)[0].windows == ((min(HOUR, now), 2 * HOUR),)
    daily = asked(start=None, schedule="@daily", nodes=("a",))
    record, _, table = put(daily)
    table.tick(DAY)
    assert record.begun == DAY
    table.tick(DAY + HOUR)
    assert (record.begun, record.last) == (None, DAY)
    table.tick(DAY - 60)
    table.tick(DAY)
    assert record.begun is None, "a window that has ended does not come again"
    assert table.specs(DAY)[0].windows[0][0] == 2 * DAY


def test_a_maintenance_has_its_nodes_drain_and_opens_them_again():
    _, shell, table = put(asked(nodes=("a", "b"), maintenance=True))
    other = asked(name="s", nodes=("b",), maintenance=True, length_s=2 * HOUR)
    table.put(other, book(), 0.0)
    table.tick(HOUR)
    assert shell.closed == ["a" * 8, "b" * 8]
    table.tick(2 * HOUR)
    assert shell.closed == ["b" * 8], "another maintenance of it lasts"
    table.delete("s")
    assert shell.closed == []


def test_a_maintenance_of_nodes_that_are_gone_is_over():
    """Otherwise `drain --at` of a node that has died would leave a reservation without nodes for
    ever.
    """
    mine, other = node("abcdef0"), node("0fedcba")
    for by in (mine.node_id, mine.node_id[:10]):
        spec = asked(nodes=(by,), maintenance=True, length_s=None)
        table = put(spec, nodes=(mine, other))[2]
        table.nodes_changed(lambda name: book(nodes=(mine, other)), 1.0)
        assert [one.name for one in table.all()] == ["r"]
        table.nodes_changed(lambda name: book(nodes=(other,)), 1.0)
        # A node named otherwise may come back: a host, for one.
        assert [one.name for one in table.all()] == ([] if by == mine.node_id else ["r"])


@given(st.floats(0, 40 * DAY), st.sampled_from(("@daily", "30 2 * * 1", "0 */6 * * *")))
def test_windows_follow_one_another_and_none_is_over(now, schedule):
    spec = asked(start=None, schedule=schedule, nodes=("a",), length_s=HOUR)
    record = ReservationRecord(spec=spec, created=0.0, start=0.0, length_s=HOUR)
    found = windows(record, now)
    assert len(found) == WINDOWS
    assert found[-1][1] is None, "what comes later nobody has looked at"
    assert all(end is None or end > now for _, end in found)
    for (_, end), (begin, _) in itertools.pairwise(found):
        assert end is not None and end <= begin


# ---- a whole head --------------------------------------------------------------------------------


def job(name="job", cpus=2.0, limit_s=None, **given):
    process = Process(command=("true",), requests=(("CPU", cpus),))
    group = TaskGroup(name="a", template=Template(processes=(process,)))
    return JobSpec(name=name, groups=(group,), timing=Timing(limit_s=limit_s), **given)


def submit(world, made):
    world.ask(ApplyManifests([job_manifest(made)]))


def state(world, name="job"):
    return world.ask(GetJob(name)).state


def starts(world):
    return [order for order in world.orders if isinstance(order, StartMember)]


def runs(world, order):
    world.hear("n0", MemberNews(order.group, order.index, order.attempt, log="a", ran_s=0.0))


@pytest.fixture
def world():
    return one_node(2)


def reserve(world, **given):
    made = Reservation(name="r", start=Moment(at=world.now + 100), length_s=50.0, node_count=1)
    return world.ask(Reserve(msgspec.structs.replace(made, **given)))


def tick(world, count=1):
    for _ in range(count):
        world.rounds(1)
        world.head.on_tick(world.now)
        world.rounds(1)


def test_a_job_that_would_run_into_it_waits_and_hears_why(world):
    reserve(world)
    submit(world, job("short", cpus=1.0, limit_s=20.0))
    submit(world, job("long", cpus=1.0, limit_s=200.0))
    tick(world, 3)
    assert [order.job for order in starts(world)] == ["default/short"]
    why = str(world.ask(Explain("long")))
    assert "reserved for r from 1970-01-01 00:03:20 UTC" in why
    assert "it may run for 3m20s" in why


def test_a_guest_runs_inside_and_ends_with_it(world):
    row = reserve(world, users=("ann",))
    submit(world, job("guest", user="ann", reservation="r"))
    tick(world, 2)
    assert not starts(world)
    assert "its reservation r begins at" in str(world.ask(Explain("guest")))
    world.now = row.begin + 1
    tick(world, 3)
    (order,) = starts(world)
    assert float(order.commands[0].variables["PHALANX_END_AT"]) == row.end
    runs(world, order)
    assert world.ask(ListReservations())[0].running == ["guest"]
    with pytest.raises(JobCommandError, match="jobs run in reservation r: guest"):
        world.ask(DeleteReservation("r"))
    world.ask(Reserve(Reservation(name="r", length_s=100.0), ("length_s",)))
    world.now = row.end + 10
    tick(world, 2)
    assert state(world, "guest") == "Running", "it lasts longer now"
    world.now = row.end + 51
    tick(world, 3)
    assert any(isinstance(order, EndMember) for order in world.orders)
    assert "its reservation r ended" in world.ask(GetJob("guest")).reason


def test_who_may_not_run_in_it_is_refused(world):
    reserve(world, users=("ann",), queues=("lab",))
    with pytest.raises(JobCommandError, match=r"reservation='r': it is for user ann, queue lab"):
        submit(world, job(user="bob", reservation="r"))
    with pytest.raises(JobCommandError, match=r"no reservation has this name.*; known: r"):
        submit(world, job(reservation="rr"))
    world.ask(DeleteReservation("r"))
    reserve(world, maintenance=True)
    with pytest.raises(JobCommandError, match="it is for maintenance: no job runs in it"):
        submit(world, job(reservation="r"))


def test_a_guest_whose_reservation_is_gone_waits_until_it_names_another(world):
    reserve(world)
    submit(world, job(reservation="r"))
    world.ask(DeleteReservation("r"))
    tick(world, 3)
    assert not starts(world)
    assert "its reservation r is over, or was deleted" in str(world.ask(Explain("job")))
    world.ask(UpdateJob("job", reservation=""))
    tick(world, 3)
    assert len(starts(world)) == 1


def test_licenses_are_held_while_a_job_runs(world):
    with pytest.raises(JobCommandError, match="the cluster has no such licenses"):
        submit(world, job(licenses=(("matlab", 1),)))
    assert world.ask(SetLicense("matlab", 3)).total == 3
    with pytest.raises(JobCommandError, match=r"licenses=matlab:4: the cluster has 3 of matlab"):
        submit(world, job(licenses=(("matlab", 4),)))
    submit(world, job("one", cpus=1.0, licenses=(("matlab", 2),)))
    submit(world, job("two", cpus=1.0, licenses=(("matlab", 2),)))
    tick(world, 3)
    assert len(starts(world)) == 1
    row = world.ask(ListLicenses())[0]
    assert (row.held, row.waiting) == (2, 2)
    waits = next(name for name in ("one", "two") if name not in row.holders)
    (holds,) = row.holders
    said = f"2 of 3 licenses of matlab are held by job {holds}, and it asks for 2"
    assert said in str(world.ask(Explain(waits)))
    world.ask(SetLicense("matlab", 4))
    tick(world, 3)
    assert len(starts(world)) == 2
    world.ask(CommandJob("one", "cancel"))


@pytest.mark.parametrize(
    ("name", "count"), [("a b", 1), ("x" * 64, 1), ("ok", -1), ("ok", 1 << 40)]
)
def test_a_license_that_cannot_be_is_refused(world, name, count):
    with pytest.raises(JobCommandError):
        world.ask(SetLicense(name, count))


def test_there_are_only_so_many_of_both(world, monkeypatch):
    monkeypatch.setattr(table_module, "MAX_RESERVATIONS", 1)
    monkeypatch.setattr(licenses_module, "MAX_LICENSES", 1)
    reserve(world)
    with pytest.raises(JobCommandError, match="there are 1 reservations already"):
        reserve(world, name="s", start=Moment(at=world.now + 1000))
    world.ask(SetLicense("a", 1))
    with pytest.raises(JobCommandError, match="there are 1 kinds of licenses already"):
        world.ask(SetLicense("b", 1))


def test_a_head_that_comes_back_knows_them():
    world = PeopleWorld()
    world.ask(SetLicense("matlab", 3))
    asked_for = asked(node_count=1, maintenance=True, start=Moment(after_s=0.0), length_s=None)
    world.ask(Reserve(asked_for))
    world.rounds(1)
    states = {"ALIVE", "DRAINING"}
    assert {row.state for row in world.ask(GetStatus()).nodes} == states
    world.restart()
    assert world.ask(ListLicenses())[0].total == 3
    row = world.ask(ListReservations())[0]
    assert (row.name, row.state) == ("r", "active")
    world.ask(DeleteReservation("r"))
    assert {row.state for row in world.ask(GetStatus()).nodes} == {"ALIVE"}
