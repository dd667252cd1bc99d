"""The contents of pages, computed from rows."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import msgspec
import pytest
from tests.present import present

from phalanx.dashboard.output import first_offset, part_data, plain_text
from phalanx.dashboard.pages import device_map, jobs, metrics, nodes, overview, plan, queues
from phalanx.dashboard.pages.device_map import DeviceMaps, grid_changes
from phalanx.dashboard.pages.lists import ROWS
from phalanx.dashboard.plots import chart_svg
from phalanx.dashboard.rendering import Pieces, ran
from phalanx.model.jobs import states as st
from phalanx.model.rows.plan import Basis, Place, PlannedStart, RunningPlace, TimePlan
from phalanx.observe.job_times import current
from phalanx.observe.series import Series
from phalanx.protocol.requests.jobs import LogPart

from .world import EVIL, GIB, NOW, PLAN, description, device, gang, job, node, queue, snapshot


def test_the_overview_says_what_waits_longest_what_failed_last_and_what_ails():
    page = overview.overview(snapshot(), {}, NOW)
    assert [one.name for one in page.waiting] == ["next", EVIL]
    assert [one.name for one in page.failed] == ["broke"]
    assert [row.state for row in page.ailing] == ["DEAD"]
    assert page.jobs == {"Pending": 2, "Running": 1, "Failed": 1}
    assert page.nodes == {"alive": 2, "dead": 1}
    assert [(one.name, one.used, one.total) for one in page.gauges] == [
        ("GPU", 1.5, 4.0), ("CPU", 16.0, 32.0), ("memory", 6 * 2.0**30, 8 * 2.0**30),
    ]  # fmt: skip
    assert page.stranded == {"GPU": 0.5}
    assert len(page.troubles) == 2


def names(words):
    return [one.name for one in jobs.jobs(snapshot(), words).listed.rows]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ({}, ["runs", EVIL, "broke", "next"]),
        ({"sort": "age"}, ["next", "runs", EVIL, "broke"]),
        ({"sort": "position", "state": "pending"}, ["next", EVIL]),
        ({"sort": "start"}, [EVIL, "next", "runs", "broke"]),
        ({"state": "alive", "sort": "name"}, sorted(["runs", EVIL, "next"])),
        ({"queue": EVIL}, [EVIL]),
        ({"user": EVIL}, ["runs"]),
        ({"q": "ONERROR src"}, [EVIL, "broke"]),
        ({"q": "nothing of that kind"}, []),
        ({"state": "NoState"}, []),
        ({"sort": "no column", "page": "99999999"}, ["runs", EVIL, "broke", "next"]),
    ],
)
def test_jobs_are_filtered_and_sorted(words, found):
    assert names(words) == found


def test_a_list_is_cut_into_pages_and_says_how_many_there_are():
    many = snapshot(jobs=[job(f"j{i:03}", submitted=NOW - i) for i in range(2 * ROWS + 1)])
    first = jobs.jobs(many, {"q": "j"}).listed
    assert (len(first.rows), first.matched, first.pages, first.first) == (ROWS, 101, 3, 1)
    last = jobs.jobs(many, {"page": "3"}).listed
    assert [one.name for one in last.rows] == ["j100"]
    assert jobs.jobs(many, {"page": "77"}).listed.rows == last.rows
    assert first.asked.address("/jobs", page=2) == "/jobs?q=j&sort=-age&page=2"
    assert first.asked.address("/jobs", state="Running") == "/jobs?q=j&sort=-age&state=Running"


@pytest.mark.parametrize(
    ("row", "actions"),
    [
        (job("a"), ["suspend", "cancel"]),
        (job("a", st.PENDING), ["hold", "suspend", "cancel"]),
        (job("a", st.PENDING, is_held=True), ["release", "suspend", "cancel"]),
        (job("a", st.ABORTED), ["resume", "cancel"]),
        (job("a", st.COMPLETED, finished=NOW), []),
    ],
)
def test_a_job_offers_what_may_be_asked_of_it(row, actions):
    assert jobs.job_page(description(row), None, []).actions == actions


def test_the_grid_says_who_holds_how_much_of_each_device():
    found = DeviceMaps().grid(snapshot())
    assert (found.nodes, found.devices) == (["n0001", "n0002"], [2, 2])
    assert found.held == [100, 50, 0, 0]
    assert found.holder == [0, device_map.OTHERS, device_map.NOBODY, device_map.NOBODY]
    assert [(one.name, one.queue, one.job) for one in found.holders] == [
        ("default/g1", "lab", "default/g1")
    ]


def test_a_closed_device_that_nobody_holds_is_closed_in_the_grid():
    row = node(1, [0, 0, 10_000], closed=[0, 1])
    status = msgspec.structs.replace(snapshot().status, nodes=[row])
    found = DeviceMaps().grid(snapshot(status=status, gangs=[gang(1, [row], [[0]])]))
    assert found.held == [100, 0, 0], "what runs on a closed one is still there"
    assert found.holder == [0, device_map.CLOSED, device_map.NOBODY]


def test_the_grid_has_marks_and_readings_of_devices():
    row = node(
        1,
        [0, 0, 10_000, 10_000],
        closed=[0, 1],
        unwell=[(0, "bad", "reset", "x"), (3, "suspect", "", "y")],
    )
    status = msgspec.structs.replace(snapshot().status, nodes=[row])
    seen = [
        device(row, 0, busy=0.97, memory_used=int(2 * GIB), temperature_c=71.0),
        device(row, 1, busy=0.001),
    ]
    found = DeviceMaps().grid(snapshot(status=status, gangs=[gang(1, [row], [[0]])]), seen)
    assert found.mark == [device_map.IS_BAD, device_map.IS_CORDONED, 0, device_map.IS_SUSPECT]
    assert found.busy == [95, 5, -1, -1]
    assert found.memory == [50, 25, -1, -1]
    assert found.heat == [70, 50, -1, -1]


def test_a_shared_device_says_its_mode_and_the_memory_of_its_sharers():
    row = node(1, [5_000, 10_000])
    status = msgspec.structs.replace(snapshot().status, nodes=[row])
    sharers = [
        ("a worker-0", int(20 * GIB), int(2 * GIB), int(30 * GIB)),
        ("b worker-0", None, None, None),
    ]
    one = device(row, 0, mode="mps", sharers=sharers)
    said = "a worker-0 (2.0 GiB used, 20.0 GiB held, limit 30.0 GiB), b worker-0 (? used, ? held)"
    maps, shown = DeviceMaps(), snapshot(status=status, gangs=[])
    found = maps.grid(shown, [one])
    assert found.shared == {0: f"shared by mps: {said}"}
    assert grid_changes(maps.grid(shown, []), found)["shared"] == found.shared
    (first, second) = present(nodes.node_page(shown, row.node_id, [one])).devices
    assert ", ".join(first.sharers) == f"shared by mps:, {said}"
    assert second.sharers == []


def test_of_the_grid_only_the_cells_that_differ_are_sent():
    before = DeviceMaps().grid(snapshot())
    assert grid_changes(before, before) == {}
    row = node(1, [0, 0])
    status = msgspec.structs.replace(snapshot().status, nodes=[row, node(2)])
    two = [gang(1, [row], [[0]]), gang(2, [row], [[1]])]
    changes = grid_changes(before, DeviceMaps().grid(snapshot(status=status, gangs=two)))
    assert changes["cells"] == [(1, 100, 1, 0, -1, -1, -1)]
    assert [one[0] for one in changes["holders"]] == ["default/g1", "default/g2"]
    fewer = msgspec.structs.replace(snapshot().status, nodes=[row])
    assert grid_changes(before, DeviceMaps().grid(snapshot(status=fewer)))["nodes"] == ["n0001"]


def test_a_node_tells_its_devices_and_guests():
    page = nodes.node_page(snapshot(), node(1).node_id)
    assert page is not None
    assert [(one.held, one.holder) for one in page.devices] == [
        (100, "default/g1"), (50, nodes.TASKS),
    ]  # fmt: skip
    assert [(one.gang.name, one.members, one.devices) for one in page.guests] == [
        ("g1", 1, {"GPU": [0]})
    ]
    assert nodes.node_page(snapshot(), "0") is None, "several begin so"


def test_a_node_tells_how_its_devices_are():
    row = node(1)
    bad = device(row, 1, state="bad", is_closed=True, holders=["tasks of driver 01"])
    page = nodes.node_page(snapshot(), row.node_id, [device(row, 0), bad, device(node(2), 1)])
    assert page is not None
    assert [(one.held, one.holder, one.state, one.measured) for one in page.devices] == [
        (100, "default/g1", "ok", "50 % busy, 1.0 GiB of 4.0 GiB, 51 °C, 300 W"),
        (0, "tasks of driver 01", "bad", "50 % busy, 1.0 GiB of 4.0 GiB, 51 °C, 300 W"),
    ]
    closed = nodes.Device(
        number=0, held=0, holder="", job="", seen=device(row, 0, is_closed=True, busy=None)
    )
    assert (closed.state, closed.measured) == ("closed", "1.0 GiB of 4.0 GiB, 51 °C, 300 W")


def test_queues_stand_below_the_one_that_they_are_part_of_and_say_what_is_wrong():
    lines = {line.queue.name: line for line in queues.queues(snapshot()).lines}
    assert [(name, line.depth) for name, line in lines.items()] == [
        (EVIL, 0), ("lab", 0), ("part", 1),
    ]  # fmt: skip
    assert lines["lab"].words == ["borrows 1 GPU; other queues may reclaim it"]
    assert lines["part"].words == ["has 0 of its 2 guaranteed GPU, and waits for 1"]
    assert lines[EVIL].words == ["is at its limit of 4 CPU"]
    share = lines["lab"].shares[0]
    assert (share.percent(share.allocated), share.percent(share.deserved)) == (50.0, 25.0)
    page = queues.queue_page(snapshot(), {}, "lab", NOW)
    assert page is not None
    assert [one.name for one in page.waiting] == ["next"]
    assert [one.name for one in page.running] == ["runs"]
    assert queues.queue_page(snapshot(), {}, "none", NOW) is None


def test_queues_in_a_circle_are_no_trap():
    row = [queue("root"), queue("a", parent="b"), queue("b", parent="a")]
    assert queues.queues(snapshot(queues=row)).lines == []


def test_the_plan_puts_bars_that_overlap_into_lanes_of_their_own():
    page = plan.plan_page(PLAN, snapshot(), "all")
    (track,) = page.tracks
    assert (track.name, page.length_s) == ("n0001", 120.0)
    runs, promised = track.bars
    assert (runs.begin, runs.end, runs.kind, runs.has_end) == (0.0, 100.0, "runs", True)
    assert (promised.begin, promised.end, promised.kind) == (50.0, 100.0, "promised")
    assert runs.top + runs.height <= promised.top
    assert promised.words.endswith("on n0001: 1 GPU, starts in 1m, once 1 task has ended, promised")


def starting(name, at_s, ends_s=None, devices=1.0, number=1):
    place = Place(node=node(number).node_id, tasks=1, devices={"nvidia.com/gpu": devices})
    return PlannedStart(
        podgroup=name, queue="lab", at_s=NOW + at_s,
        ends_s=None if ends_s is None else NOW + ends_s,
        after_tasks=0, basis=Basis(), is_promised=False, fills=False, places=(place,),
    )  # fmt: skip


def test_a_long_job_does_not_squeeze_the_rest_of_the_plan():
    place = Place(node=node(1).node_id, tasks=2, devices={"nvidia.com/gpu": 2.0})
    days = RunningPlace(podgroup="default/days", place=place, ends_s=NOW + 3 * 86_400)
    soon = starting("default/soon", 600.0, 1_800.0, number=2)
    found = TimePlan(now=NOW, starts=(soon,), unknown=(), running=(days,))
    page = plan.plan_page(found, snapshot())
    assert (page.range, page.length_s) == ("1h", 3_600.0)
    first, second = page.tracks
    assert (first.bars[0].end, first.bars[0].has_end) == (100.0, False)
    assert (second.bars[0].begin, second.bars[0].end) == (16.67, 50.0)
    whole = plan.plan_page(found, snapshot(), "all")
    assert whole.length_s == 3 * 86_400
    assert whole.tracks[0].bars[0].has_end


def test_a_bar_is_as_high_as_the_part_of_the_node_that_it_holds_and_none_overlap():
    rng = random.Random(5)
    starts = []
    for number in range(200):
        begin = rng.uniform(0, 3_000)
        starts.append(starting(f"default/j{number}", begin, begin + rng.uniform(1, 900),
                               float(rng.randint(1, 8))))  # fmt: skip
    row = node(1, [0] * 8)
    status = msgspec.structs.replace(snapshot().status, nodes=[row])
    found = TimePlan(now=NOW, starts=tuple(starts), unknown=(), running=())
    (track,) = plan.plan_page(found, snapshot(status=status), "1h").tracks
    heights = {bar.podgroup: bar.height + 1 for bar in track.bars}
    a_device = min(heights.values())
    for start in starts:
        assert heights[start.podgroup] == a_device * start.places[0].devices["nvidia.com/gpu"]
    for one, other in itertools.combinations(track.bars, 2):
        is_apart = one.end <= other.begin or other.end <= one.begin
        is_above = one.top + one.height <= other.top or other.top + other.height <= one.top
        assert is_apart or is_above


def test_a_short_bar_is_named_beside_it_where_nothing_is_in_the_way():
    row = node(1, [0] * 8)
    place = Place(node=row.node_id, tasks=4, devices={"nvidia.com/gpu": 4.0})
    runs = tuple(
        RunningPlace(podgroup=f"default/{name}", place=place, ends_s=NOW + ends_s)
        for name, ends_s in (("free-beside", 600.0), ("blocked", 600.0))
    )
    starts = (starting("default/follows", 700.0, 900.0, devices=4.0),)
    found = TimePlan(now=NOW, starts=starts, unknown=(), running=runs)
    status = msgspec.structs.replace(snapshot().status, nodes=[row, node(2)])
    page = plan.plan_page(found, snapshot(status=status), "1d")
    bars = {bar.podgroup: bar for bar in page.tracks[0].bars}
    (blocked,) = (one for one in runs if bars[one.podgroup].top == bars["default/follows"].top)
    beside = {name for name, bar in bars.items() if bar.is_named_beside}
    assert beside == set(bars) - {blocked.podgroup}
    assert page.idle == 1


def test_a_low_bar_is_named_beside_it_where_the_name_meets_no_other_bar():
    """The drawing has many rows, so the bar of a single device is too low to have its name
    inside.
    """
    rows = [node(number + 1, [0] * 8) for number in range(plan.FEW + 1)]
    status = msgspec.structs.replace(snapshot().status, nodes=rows)

    def held(number: int, devices: float, name: str, ends_s: float) -> RunningPlace:
        place = Place(node=rows[number].node_id, tasks=1, devices={"nvidia.com/gpu": devices})
        return RunningPlace(podgroup=f"default/{name}", place=place, ends_s=NOW + ends_s)

    running = (
        held(0, 1.0, "alone", 600.0),
        held(1, 1.0, "a-low", 600.0), held(1, 7.0, "high", 80_000.0),  # below the low one's name
        held(2, 1.0, "long", 86_000.0),  # no room beside it
        *(held(number, 8.0, f"whole-{number}", 9_000.0) for number in range(3, plan.FEW + 1)),
    )  # fmt: skip
    found = TimePlan(now=NOW, starts=(), unknown=(), running=running)
    page = plan.plan_page(found, snapshot(status=status), "1d")
    bars = {bar.podgroup.rpartition("/")[2]: bar for track in page.tracks for bar in track.bars}
    assert bars["alone"].is_low and bars["alone"].is_named_beside and bars["alone"].label == "alone"
    assert [bars[name].label for name in ("a-low", "long", "high")] == ["", "", "high"]


def test_expected_starts_are_listed_in_the_order_of_time():
    late_first = (starting("default/late", 700.0), starting("default/soon", 60.0))
    found = TimePlan(now=NOW, starts=late_first, unknown=(), running=())
    page = plan.plan_page(found, snapshot())
    assert [one.podgroup for one in page.starts] == ["default/soon", "default/late"]


def test_the_axis_of_the_plan_has_round_times_of_day():
    found = TimePlan(now=NOW, starts=(starting("default/a", 7_000.0),), unknown=(), running=())
    ticks = plan.plan_page(found, snapshot(), "6h").ticks
    assert 4 <= len(ticks) <= 8
    assert len({later.at - one.at for one, later in itertools.pairwise(ticks)}) == 1
    assert all(tick.at % 1_800 == 0 and 0 <= tick.place <= 100 for tick in ticks)


def counted(**values):
    """Return numbers that were constant over the last quarter of an hour."""
    found = {}
    for name, value in values.items():
        found[name, "GPU"] = series = Series()
        for at in range(90):
            series.add(NOW - 900 + 10 * at, value)
    return found


def test_the_overview_shows_what_is_used_of_what_is_allocated_of_all():
    numbers = counted(total=8.0, allocated=6.0, used=3.0)
    chart = overview.overview(snapshot(), numbers, NOW).curves[0]
    assert (chart.name, [line.kind for line in chart.lines]) == (
        "GPU", ["total", "allocated", "used"],
    )  # fmt: skip
    assert chart.top >= 8.0
    drawn = chart_svg(chart, metrics.rounded)
    assert "GPU over time: total 8 now, allocated 6 now, used 3 now" in drawn
    heights = {
        kind: {float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", path)}
        for kind, path in re.findall(r'class="line (\w+)" d="([^"]+)"', drawn)
    }
    assert {kind: round(chart.top * (1 - min(ys) / 100), 1) for kind, ys in heights.items()} == {
        "total": 8.0, "allocated": 6.0, "used": 3.0,
    }  # fmt: skip
    assert re.findall(r'data-clock="(\d+)"', drawn), "the time axis has wall-clock times"


def test_no_time_on_an_axis_meets_the_word_now():
    full = NOW - NOW % 300
    for after_s in (10.0, 60.0, 100.0, 150.0):
        chart = overview.overview(snapshot(), counted(used=3.0), full + after_s).curves[0]
        drawn = chart_svg(chart, metrics.rounded)
        places = re.findall(r'<text x="([\d.]+)%" y="\d+" text-anchor="middle"', drawn)
        assert places and max(map(float, places)) < 84
        rules = re.findall(r'<line class="rule" x1="([\d.]+)%" x2="[\d.]+%" y1="8"', drawn)
        assert len(rules) == len(places) + (10.0 < after_s < 144.0)


def test_a_plot_is_interrupted_where_nothing_was_counted():
    series = Series()
    for at in (*range(20), *range(60, 90)):
        series.add(NOW - 900 + 10 * at, 1.0)
    chart = overview.overview(snapshot(), {("allocated", "GPU"): series}, NOW).curves[0]
    drawn = chart_svg(chart, metrics.rounded)
    assert len(re.findall(r'class="line allocated"', drawn)) == 2


def test_the_overview_says_for_each_queue_what_waits_and_why():
    waits = [
        job("a", st.PENDING, reason="queue lab may hold 2 GPU", position=1),
        job("b", st.PENDING, reason="queue lab may hold 2 GPU and more", position=2),
        job("c", st.PENDING, reason="no node has the labels", position=3),
    ]
    codes = {"default/a": "queue-quota", "default/b": "queue-quota", "default/c": "labels"}
    rows = [*waits, job("r"), job("s", queue="other"), job("d", st.COMPLETED, finished=NOW)]
    found = overview.overview(snapshot(jobs=rows, waits=codes), {}, NOW).queues
    assert [(one.name, one.running, one.waiting) for one in found] == [
        ("lab", 1, 3), ("other", 1, 0),
    ]  # fmt: skip
    assert [(one.count, one.words, one.is_same) for one in found[0].reasons] == [
        (2, "queue lab may hold 2 GPU", False), (1, "no node has the labels", True),
    ]  # fmt: skip


def test_a_queue_shows_memory_as_people_write_it():
    held = {"memory": 2.0 * 1024**3}
    lab = queue("lab", allocated=held, deserved={"memory": 1024.0**3})
    found = queues.queues(snapshot(queues=[queue("root"), lab])).lines[0]
    (share,) = found.shares
    assert share.written(share.allocated) == "2.0 GiB"
    assert found.words == ["borrows 1.0 GiB memory; other queues may reclaim it"]


def test_a_queue_is_drawn_against_what_it_deserves_and_may_hold():
    held = Series()
    for at in range(90):
        held.add(NOW - 900 + 10 * at, 2.0)
    lab = queue("lab", allocated={"GPU": 2.0}, deserved={"GPU": 3.0}, capability={"GPU": 8.0})
    rows = snapshot(queues=[queue("root"), lab])
    page = queues.queue_page(rows, {("queue lab", "GPU"): held}, "lab", NOW)
    assert page is not None
    (curve,) = page.curves
    now = {line.name: line.points[-1][1] for line in curve.lines}
    assert now == {"deserved": 3.0, "at most": 8.0, "allocated": 2.0}
    assert curve.top >= 8.0


def test_the_page_of_a_failed_job_ends_with_what_its_first_failed_member_printed():
    names = (("ok", st.SUCCEEDED, 1.0), ("second", st.FAILED, 9.0), ("first", st.FAILED, 4.0))
    row = description(job("broke", st.FAILED, finished=NOW))
    (member,) = row.members
    members = [
        msgspec.structs.replace(member, name=name, state=state, ended=NOW + ended)
        for name, state, ended in names
    ]
    silent = msgspec.structs.replace(members[2], name="silent", ended=NOW, logs=[])
    row = msgspec.structs.replace(row, members=[*members, silent])
    assert present(jobs.first_failed(row)).name == "first"
    assert jobs.first_failed(msgspec.structs.replace(row, state=st.COMPLETED)) is None
    shown = present(jobs.last_lines("first", "".join(f"line {n}\n" for n in range(40)) + "\n"))
    assert shown.text.splitlines() == [f"line {n}" for n in range(28, 40)]
    assert jobs.last_lines("first", " \n") is None


def test_the_overview_names_what_looks_bad():
    row = node(1, [0, 0], closed=[0, 1], unwell=[(0, "bad", "reset", "Xid 79")], reason="Xid 79")
    late = [
        job("late", st.FAILED, finished=NOW - 60),
        job("old", st.FAILED, finished=NOW - 9_000),
    ]
    status = msgspec.structs.replace(snapshot().status, nodes=[row, node(2)])
    page = overview.overview(snapshot(status=status, jobs=late), {}, NOW)
    [bad] = page.bad_devices
    assert (bad.name, bad.state, bad.why) == ("n0001/gpu0", "bad", "Xid 79")
    assert (page.cordoned, page.failed_lately, page.ailing) == (1, 1, [])
    assert [one.name for one in page.cordoned_devices] == ["n0001/gpu1"]


def test_queues_count_the_jobs_and_gangs_that_wait_and_run_below_them():
    rows = [
        queue("root"), queue("lab", running=1), queue("a", parent="lab", running=3),
        queue("b", parent="a", inqueue=3),
    ]  # fmt: skip
    held = job("held", st.PENDING, queue="a", is_held=True, running=0)
    array = job("array", queue="a", array="0-9%3", running=3)
    gangs = [
        gang(1, [node(1)], [[0]], job="", queue="lab"),
        gang(2, [], [], job="", queue="b", phase="Inqueue"),
        gang(3, [node(1)], [[0]], job="default/array[0]", queue="a"),
    ]
    seen = snapshot(queues=rows, jobs=[held, array], gangs=gangs)
    lines = queues.queues(seen).lines
    assert {one.queue.name: (one.waiting, one.running) for one in lines} == {
        "lab": (2, 2), "a": (2, 1), "b": (1, 0),
    }  # fmt: skip


def test_how_long_a_job_has_run_moves_on_from_the_moment_of_its_row():
    runs = job("runs", ran_s=600.0, age_s=660.0, submitted=NOW - 700, time_limit_s=7_200.0)
    assert f'data-since="{NOW - 700 + 660 - 600:.0f}"' in ran(runs)
    assert ran(runs).endswith(" of 2h")
    assert ran(job("over", st.COMPLETED, ran_s=600.0)) == "10m"
    assert ran(job("new", st.PENDING)) == ""


def test_a_time_that_counts_on_is_no_change_until_it_begins_anew():
    row = job("runs", ran_s=600.0, age_s=660.0, submitted=NOW - 660)
    then, later = (Pieces({"r": str(ran(one))}, {}) for one in (row, *current([row], NOW + 5)))
    assert then.html != later.html
    assert later.changes_since(then) == {}
    anew = Pieces({"r": str(ran(msgspec.structs.replace(row, ran_s=1.0)))}, {})
    assert anew.changes_since(then)["set"] == anew.html


def test_rows_of_jobs_are_as_of_now():
    runs = job("runs", ran_s=600.0, age_s=660.0, submitted=NOW - 660)
    array = job("array", array="0-3", age_s=60.0, submitted=NOW - 60)
    over = job("over", st.COMPLETED, ran_s=5.0, age_s=60.0, finished=NOW - 1, submitted=NOW - 60)
    told = current([runs, array, over], NOW + 7)
    assert [(one.age_s, one.ran_s) for one in told] == [(667, 607), (67, 0), (67, 5)]
    assert current(told, NOW + 7) == told
    assert ran(told[1]) == "", "none of its tasks has begun"
    rows = [runs, msgspec.structs.replace(runs, name="late", ran_s=650.0, age_s=700.0)]
    page = jobs.jobs(snapshot(jobs=rows, at=NOW), {"sort": "-ran"})
    assert [one.name for one in page.listed.rows] == ["late", "runs"]


def test_an_array_has_run_since_its_first_task_began():
    about: dict[str, Any] = {
        "array": "0-3", "running": 0, "age_s": 60.0, "submitted": NOW - 60, "started": NOW - 50,
    }  # fmt: skip
    runs = job("runs", time_limit_s=30.0, **about)
    over = job("over", st.FAILED, finished=NOW - 8, **about)
    runs, over = current([runs, over], NOW + 7)
    assert "57s" in ran(runs) and " of " not in ran(runs), "its limit is of each array task"
    assert "data-since" in ran(runs), "a pause between two tasks does not stop it"
    assert ran(over) == "42s"


def test_numbers_over_time_are_means_of_steps_and_bounded():
    series = Series()
    for second in range(2_000):
        series.add(second, float(second // 10 % 2))
    fine = series.since(1_100.0, 2_000.0)
    assert fine[0].at == 1_100.0
    assert {point.mean for point in fine} == {0.0, 1.0}
    assert len(fine) == 90
    coarse = series.since(0.0, 2_000.0)
    assert [point.mean for point in coarse] == pytest.approx([0.5] * 7)
    assert [point.at for point in coarse][:2] == [0.0, 300.0]
    series.add(10.0, 5.0)  # the clock was set back
    assert series.since(1_100.0, 2_000.0)[-1].at == 1_990.0


def test_a_copy_of_numbers_over_time_hears_what_is_new_and_keeps_what_its_head_forgot():
    series, copy = Series(), Series()
    heard = 0.0
    for second in range(0, 4_000, 7):
        series.add(second, float(second))
        if second % 35 == 0:
            points = series.points_after(heard)
            heard = second
            assert sum(map(len, points)) < 20
            copy.update(points)
            assert copy.since(second - 900.0, second) == series.since(second - 900.0, second)
    copy.update(series.points_after(heard))
    assert copy.points_after(0.0) == series.points_after(0.0)
    head = Series()
    head.add(4_321.0, 1.0)
    copy.update(head.points_after(0.0))
    kept = copy.since(3_600.0, 4_330.0)
    assert len(kept) > 30 and kept[-1] == (4_320.0, 1.0)


def test_output_is_plain_text():
    assert plain_text(b"\x1b[1;31mred\x1b[0m\x1b]8;;http://x\x07link\x1b]8;;\x07") == "redlink"
    assert plain_text(b" 1%|#\r 50%|##\r100%|###\nnext\r\n") == "100%|###\nnext\n"
    assert plain_text(b"a\x00\x08b\xff\xe2\x80\xaec\ttab") == "ab\ufffdc\ttab"


def test_output_is_sent_in_parts_that_end_with_lines():
    whole = b"".join(b"line %d\n" % i for i in range(60_000))
    offset, text, parts = 0, "", 0
    while True:
        data = part_data(LogPart(whole[offset : offset + (1 << 20)], len(whole)), offset)
        text, offset, parts = text + data["text"], data["next"], parts + 1
        if not data["more"]:
            break
        assert data["text"].endswith("\n")
    assert text.encode() == whole
    assert parts > 1
    assert part_data(LogPart(b"", -1), 5)["size"] == -1
    assert part_data(LogPart(b"ab", 12, 10), 0) == {
        "text": "ab", "next": 12, "size": 12, "skipped": 10, "more": False,
    }  # fmt: skip
    assert first_offset(10) == 0
