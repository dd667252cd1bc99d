"""A client that follows the changes of a cluster has the same rows as the listings."""

from __future__ import annotations

import msgspec
from tests.present import present
from tests.world.cluster import one_node

from phalanx.head.changes import ChangeLog
from phalanx.model.jobs.spec import JobSpec, Process, TaskGroup, Template
from phalanx.protocol.requests import news as limits
from phalanx.protocol.requests.gangs import ListGangs
from phalanx.protocol.requests.jobs import (
    ApplyManifests,
    CommandJob,
    DeleteJob,
    ListJobs,
    Manifest,
)
from phalanx.protocol.requests.news import GetNews, ListWaiting, Since, with_wait
from phalanx.protocol.requests.queues import ListQueues


class Follower:
    """Keeps the rows that the head's messages contained."""

    def __init__(self, world):
        self.world = world
        self.since = Since()
        self.jobs, self.gangs, self.nodes = {}, {}, {}
        self.queues = []
        self.heard = 0

    def hear(self):
        """Get all changes. Queues are counted again by then."""
        self.world.now += 1.0
        while True:
            news = present(self.world.ask(GetNews(self.since)))
            if news.is_new:
                self.jobs, self.gangs, self.nodes = {}, {}, {}
            self.since, self.queues = news.since, news.queues
            self.heard += len(news.jobs) + len(news.gangs) + len(news.nodes)
            self.jobs |= {f"{row.namespace}/{row.name}": row for row in news.jobs}
            self.gangs |= {row.group: row for row in news.gangs}
            self.nodes |= {row.node_id: row for row in news.nodes}
            for gone, kept in (
                (news.gone_jobs, self.jobs),
                (news.gone_gangs, self.gangs),
                (news.gone_nodes, self.nodes),
            ):
                for name in gone:
                    kept.pop(name, None)
            if not news.is_more:
                return

    def is_right(self):
        """Check that the rows equal those of the listings, except for values that change with
        time.
        """
        waits = {one.job: one for one in present(self.world.ask(ListWaiting()))}
        told = {uid: with_wait(row, waits.get(uid)) for uid, row in self.jobs.items()}
        jobs = {f"{r.namespace}/{r.name}": r for r in present(self.world.ask(ListJobs()))}
        gangs = {row.group: row for row in present(self.world.ask(ListGangs()))}
        assert {uid: _still(row) for uid, row in told.items()} == {
            uid: _still(row) for uid, row in jobs.items()
        }
        assert self.gangs == gangs
        assert self.queues == self.world.ask(ListQueues())
        return True


def _still(row):
    return msgspec.structs.replace(row, age_s=0.0, ran_s=0.0, expected_start=None)


def submit(world, name, cpus, members=1):
    process = Process(command=("sleep",), requests=(("CPU", float(cpus)),))
    group = TaskGroup(name="w", replicas=members, template=Template(processes=(process,)))
    spec = JobSpec(name=name, groups=(group,), min_available=members)
    world.ask(ApplyManifests([Manifest("Job", msgspec.msgpack.encode(spec))]))


def test_news_are_what_listings_say_through_the_lives_of_jobs_and_gangs():
    world = one_node(4)
    follower = Follower(world)
    world.queue("lab", weight=2)
    for number in range(6):
        submit(world, f"j{number}", 1, members=1 + number % 2)
        follower.hear()
        assert follower.is_right()
    world.gang("g", 2, cpus=1, queue="lab")
    for turn in range(30):
        world.rounds(1)
        if turn == 5:
            world.ask(CommandJob("j0", "cancel"))
        if turn == 10:
            world.ask(CommandJob("j5", "hold"))
        if turn == 15:
            world.ask(DeleteJob("j1"))
            world.ask(CommandJob("j2", "suspend"))
        follower.hear()
        assert follower.is_right()
    assert "default/j1" not in follower.jobs or follower.jobs["default/j1"].state
    assert set(follower.nodes) == {"n0"}


def test_where_nothing_changes_nothing_is_told():
    world = one_node(1)
    submit(world, "a", 1)
    world.rounds(5)
    follower = Follower(world)
    follower.hear()
    heard = follower.heard
    follower.hear()
    assert follower.heard == heard


def test_news_come_in_parts_and_another_head_begins_anew(monkeypatch):
    monkeypatch.setattr("phalanx.head.gangs.news.MAX_ROWS", 3)
    world = one_node(1)
    for number in range(8):
        submit(world, f"j{number}", 1)
    follower = Follower(world)
    news = present(world.ask(GetNews(Since())))
    assert (len(news.jobs), news.is_more) == (3, True)
    follower.hear()
    assert follower.is_right()
    follower.since = Since(1.0, 99, 99, 99)
    follower.hear()
    assert follower.is_right()
    assert limits.MAX_ROWS > 3


def test_a_change_log_tells_the_oldest_changes_first_and_each_once():
    log: ChangeLog[str] = ChangeLog()
    for name in "abcab":
        log.note(name)
    assert log.since(0, 10) == (5, ["c", "a", "b"])
    assert log.since(0, 2) == (4, ["c", "a"])
    assert log.since(4, 2) == (5, ["b"])
    assert log.since(5, 2) == (5, [])
