"""The usage of users is exact, and the same in snapshots and after restarts. The order of their
jobs follows from it.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples
from tests.unit.head.gangs.test_what_people_see import settle
from tests.world.cluster import World, stored_world

from phalanx.errors import JobCommandError
from phalanx.head.shares import usage_ledger as keeping
from phalanx.head.shares.control import MAX_SHARES
from phalanx.head.shares.user_usage import Running, UserUsage
from phalanx.model.jobs.spec import Process, TaskGroup, Template
from phalanx.protocol.bundle_messages import MemberNews
from phalanx.protocol.requests.gangs import Explain, SetRules, TakeSnapshot
from phalanx.protocol.requests.jobs import ListJobs
from phalanx.protocol.requests.queues import CreateQueue, DeleteQueue, QueueFields
from phalanx.protocol.requests.shares import GetShares, SetShares
from phalanx.scheduler.cycle.cycle import decide
from phalanx.scheduler.cycle.reading import read_snapshots
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.specs import UserShare
from phalanx.scheduler.cycle.waiting import waiting_groups
from phalanx.scheduler.plugin_parts.billing import Terms
from phalanx.scheduler.plugin_parts.past_use import accrued
from phalanx.scheduler.plugin_parts.users import Users

TERMS = Terms(half_life_s=3600.0, penalty_s=300.0, billing={"cpu": 1.0})
HOUR_S = 3600.0


def submit(world, name, user, cpus=1.0, priority=0, queue="default"):
    process = Process(command=("true",), requests=(("CPU", cpus),))
    template = Template(processes=(process,), restart="Never")
    group = TaskGroup(name="a", replicas=1, template=template)
    world.job(group, name=name, min_available=1, user=user, priority=priority, queue=queue)
    world.now += 0.01


def end(world, name):
    """End the job's only member."""
    gang = world.scheduler.jobs.gang_of(f"default/{name}")
    member = gang.members[0]
    world.hear("n1", MemberNews(gang.gang_id, 0, member.attempt, 0, log="x"))
    settle(world)


def used(world, queue="default"):
    return {row.user: row for row in world.ask(GetShares(queue))}


def running(world):
    return {row.name for row in world.ask(ListJobs()) if row.state == "Running"}


def positions(world):
    return {row.name: row.position for row in world.ask(ListJobs()) if row.position}


# ---- one book ------------------------------------------------------------------------------------


@settings(max_examples=examples(200))
@given(
    st.lists(st.tuples(st.floats(1, 500), st.floats(0.1, 8), st.floats(1, 5000)), max_size=6),
    st.lists(st.floats(0, 6000), max_size=6),
)
def test_looking_and_other_work_change_nothing_of_what_is_billed(works, looks):
    """Each piece of work is (begin, rate, seconds). The total usage is the sum of what each piece
    adds by itself, however often it is read in between.
    """
    end = 10_000.0
    book = UserUsage()
    steps = [(begin, 1, i) for i, (begin, _, _) in enumerate(works)]
    steps += [(begin + seconds, 2, i) for i, (begin, _, seconds) in enumerate(works)]
    steps += [(look, 3, 0) for look in looks]
    for at, what, i in sorted(steps):
        if what == 1:
            book.begin((b"g", i), Running(at, works[i][1]), at, TERMS)
        elif what == 2:
            book.end((b"g", i), at, TERMS)
        else:
            book.used(at, TERMS)
    alone = sum(
        accrued(rate, seconds, TERMS.half_life_s)
        * 2 ** (-(end - begin - seconds) / TERMS.half_life_s)
        for begin, rate, seconds in works
    )
    assert book.used(end, TERMS) == pytest.approx(alone, rel=1e-6, abs=1e-6)
    assert book.rate == 0.0


def test_what_has_just_begun_counts_for_the_penalty():
    book = UserUsage()
    book.begin((b"g", 0), Running(0.0, 2.0), 0.0, TERMS)
    assert book.used(0.0, TERMS) == 600.0
    assert book.used(100.0, TERMS) == pytest.approx(accrued(2.0, 100.0, HOUR_S) + 400.0)
    assert book.used(400.0, TERMS) == pytest.approx(accrued(2.0, 400.0, HOUR_S))
    book.end((b"g", 0), 400.0, TERMS)
    assert book.used(400.0 + HOUR_S, TERMS) == pytest.approx(accrued(2.0, 400.0, HOUR_S) / 2)


def test_a_clock_that_is_set_back_adds_and_forgets_nothing():
    book = UserUsage(use=100.0, at=1000.0)
    book.begin((b"g", 0), Running(1000.0, 1.0), 1000.0, TERMS)
    assert book.used(500.0, TERMS) == pytest.approx(100.0 + 300.0)
    book.end((b"g", 0), 500.0, TERMS)
    assert (book.use, book.at) == (100.0, 1000.0)


# ---- a head --------------------------------------------------------------------------------------


def test_users_take_turns_and_who_used_less_is_next():
    world = World()
    world.add("n1", CPU=2.0)
    for name in ("a0", "a1"):
        submit(world, name, "alice")
    settle(world)
    world.now += HOUR_S
    for name, user in (("a2", "alice"), ("b0", "bob"), ("b1", "bob")):
        submit(world, name, user)
    assert positions(world) == {"b0": 1, "b1": 2, "a2": 3}
    end(world, "a0")
    assert running(world) == {"a1", "b0"}
    assert (used(world)["alice"].rate, used(world)["bob"].rate) == (1.0, 1.0)
    end(world, "a1")
    assert running(world) == {"b0", "b1"}
    assert used(world)["alice"].rate == 0.0


def test_of_those_who_used_nothing_each_has_a_job_before_anybody_has_two():
    world = World()
    world.add("n1", CPU=2.0)
    for name, user in (("a0", "alice"), ("a1", "alice"), ("b0", "bob")):
        submit(world, name, user)
    settle(world)
    assert running(world) == {"a0", "b0"}


def test_shares_weigh_what_was_used_and_none_come_last():
    world = World()
    world.add("n1", CPU=1.0)
    submit(world, "old", "alice")
    settle(world)
    world.now += HOUR_S
    submit(world, "a", "alice")
    submit(world, "b", "bob")
    submit(world, "c", "carol")
    found = world.ask(SetShares("default", {"bob": 0.0, "alice": 3.0}))
    assert [(row.user, row.shares, row.is_set) for row in found] == [
        ("alice", 3.0, True), ("bob", 0.0, True)
    ]  # fmt: skip
    order = positions(world)
    assert order == {"c": 1, "a": 2, "b": 3}
    for name, position in order.items():
        assert world.ask(Explain(name)).position == position
    end(world, "old")
    assert running(world) == {"c"}
    assert used(world)["alice"].use > 0
    assert used(world)["bob"].level_fairshare == 0.0


def test_priority_comes_before_shares():
    world = World()
    world.add("n1", CPU=1.0)
    submit(world, "old", "alice")
    settle(world)
    world.now += HOUR_S
    submit(world, "a", "alice", priority=5)
    submit(world, "b", "bob")
    end(world, "old")
    assert running(world) == {"a"}


def snapshot_of(world):
    (found,) = read_snapshots(world.ask(TakeSnapshot(False)).decode(), known_plugins())
    return found


def test_a_snapshot_says_the_same_as_the_head():
    world = World()
    world.add("n1", CPU=4.0)
    submit(world, "a0", "alice", cpus=2.0)
    submit(world, "b0", "bob")
    settle(world)
    world.now += 1000.0
    end(world, "a0")
    submit(world, "a1", "alice")
    submit(world, "c0", "carol", cpus=4.0)
    submit(world, "b1", "bob", cpus=4.0)
    settle(world)
    world.now += 50.0
    snapshot = snapshot_of(world)
    session, _ = decide(snapshot, explains=False)
    books = world.scheduler.books
    users = Users(session, books.terms)
    live = used(world)
    for job in session.cluster.jobs:
        name = job.spec.user
        expected = books.users("default", snapshot.now).get(name, UserShare(name=name))
        assert users.of(job).use == pytest.approx(expected.use, rel=1e-3)
    assert live["alice"].use > live["bob"].use
    order = [one.podgroup for one in waiting_groups(snapshot) if one.queue == "default"]
    assert {uid: at for at, uid in enumerate(order, 1)} == {
        f"default/{name}": at for name, at in positions(world).items()
    }


def test_what_was_used_outlives_the_head_and_what_runs_goes_on_being_billed():
    world = stored_world()
    world.add("n1", CPU=4.0)
    submit(world, "a0", "alice")
    submit(world, "a1", "alice")
    settle(world)
    world.write()
    settle(world)
    world.now += 1000.0
    end(world, "a0")
    world.ask(SetShares("default", {"dora": 7.0}))
    world.write()
    settle(world)
    before = used(world)
    world.restart()
    world.now += 500.0
    after = used(world)
    assert after["dora"].shares == 7.0
    assert after["alice"].rate == 1.0
    half_life_s = world.scheduler.books.terms.half_life_s
    expected = before["alice"].use * 2 ** (-500 / half_life_s) + accrued(1.0, 500, half_life_s)
    assert after["alice"].use == pytest.approx(expected, rel=1e-6)


def test_what_is_billed_is_for_the_rules_to_say():
    world = World()
    world.add("n1", CPU=4.0)
    rules = (
        'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: fair-tree\n'
        "    arguments: {billing: {cpu: 10}, penalty: 1s}\n  - name: predicates\n"
    )
    world.ask(SetRules(rules, "own.yaml"))
    submit(world, "a", "alice", cpus=2.0)
    settle(world)
    assert used(world)["alice"].rate == 20.0


def test_many_users_who_ask_for_the_same_all_have_their_turn():
    """There are more equal jobs than a cycle looks at. No user waits behind all jobs of another."""
    world = World()
    world.add("n1", CPU=1.0)
    submit(world, "first", "alice")
    settle(world)
    for i in range(50):
        submit(world, f"a{i}", "alice")
    submit(world, "b", "bob")
    settle(world)
    assert world.ask(Explain("b")).position == 1
    end(world, "first")
    assert running(world) == {"b"}


# ---- what is asked -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "shares", "why"),
    [
        ("nope", {"a": 1.0}, "there is no queue 'nope'"),
        ("default", {"a": -1.0}, f"-1 shares of 'a': allowed: 0 to {MAX_SHARES:,}"),
        ("default", {"a": MAX_SHARES + 1.0}, "allowed: 0 to"),
        ("default", {"a": math.nan}, "allowed: 0 to"),
        ("default", {"a\n": 1.0}, "user must be a name"),
        ("default", {"good": 1.0, "x" * 300: 1.0}, "user must be a name"),
    ],
)
def test_shares_that_cannot_be_are_refused_and_nothing_changes(queue, shares, why):
    world = World()
    with pytest.raises(JobCommandError, match=why):
        world.ask(SetShares(queue, shares))
    assert world.ask(GetShares()) == []


def test_shares_are_taken_back_and_go_with_their_queue():
    world = World()
    world.ask(CreateQueue("lab", QueueFields()))
    world.ask(SetShares("lab", {"alice": 2.0}))
    assert world.ask(SetShares("lab", {"alice": None}))[0].is_set is False
    world.ask(SetShares("lab", {"alice": 2.0}))
    world.ask(DeleteQueue("lab"))
    assert world.ask(GetShares()) == []
    with pytest.raises(JobCommandError, match="there is no queue 'lab'"):
        world.ask(GetShares("lab"))


def test_of_too_many_users_those_with_least_use_are_forgotten(monkeypatch):
    monkeypatch.setattr(keeping, "MAX_BOOKS", 3)
    world = World()
    world.add("n1", CPU=8.0)
    submit(world, "a", "alice")
    settle(world)
    world.ask(SetShares("default", {"bob": 2.0, "carol": None}))
    submit(world, "d", "dora")
    settle(world)
    assert set(used(world)) == {"alice", "bob", "dora"}
