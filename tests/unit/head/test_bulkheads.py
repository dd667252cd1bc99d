"""An internal error harms one thing only: other work goes on, and `status` counts the error. The
tests raise such errors in each part of the head.
"""

from __future__ import annotations

import socket
import tempfile
from typing import Any

import msgspec
import pytest
from tests.fuzz.world import NODES, TOTAL, PeopleWorld, bystander

from phalanx.cli.cluster_view import as_data, status_text
from phalanx.model.ids import GangId, GroupId
from phalanx.model.jobs import states
from phalanx.model.jobs.spec import CronSpec, FlowSpec, Step
from phalanx.protocol.bundle_messages import MemberNews
from phalanx.protocol.frames import encode_body, encode_frame
from phalanx.protocol.membership_messages import Leave, Reported
from phalanx.protocol.report_messages import NodeReport
from phalanx.protocol.requests.actors import ActorSpec, ListActors, RegisterActor
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.jobs import ApplyManifests, ListJobs, Manifest
from phalanx.protocol.requests.request import read_result
from phalanx.runtime.os.connection import Connection, listen
from phalanx.runtime.os.connection_loop import ConnectionLoop
from phalanx.scheduler.plugins.binpack import Binpack

A = next(iter(NODES))


class Planted(Exception):
    """An unexpected error, which the test raises."""


@pytest.fixture
def world():
    return PeopleWorld()


def fails_for(plant, owner, method, is_bad):
    """Make a method raise for the arguments for which `is_bad` is true."""
    whole = getattr(owner, method)

    def failing(*args, **kwargs):
        if is_bad(*args, **kwargs):
            raise Planted("a plank is loose")
        return whole(*args, **kwargs)

    plant.setattr(owner, method, failing)


def apply(world, kind, spec):
    return world.request(ApplyManifests([Manifest(kind, msgspec.msgpack.encode(spec))]))


def job(name, **fields):
    return msgspec.structs.replace(bystander(name), **fields)


def counted(world):
    return {kind: row.count for kind, row in world.head.internal_errors.rows.items()}


def others_go_on(world):
    """Check that a bystander's job begins and completes."""
    uid = world.submit_bystander()
    world.rounds()
    assert world.state(uid) == states.RUNNING
    world.end_members(0, of=uid)
    world.rounds(2)
    assert world.state(uid) == states.COMPLETED


def test_a_request(world, monkeypatch):
    fails_for(monkeypatch, world.head.actor_table, "all", lambda: True)
    assert isinstance(world.request(ListActors()).error, Planted)
    monkeypatch.undo()
    assert set(counted(world)) == {"request"}
    assert (
        "ListActors: Planted: a plank is loose" in world.head.internal_errors.rows["request"].last
    )
    others_go_on(world)


def test_a_job_whose_beginning_fails_is_not_there(world, monkeypatch):
    fails_for(
        monkeypatch,
        world.scheduler.jobs.table,
        "_settle",
        lambda job, now, steady: True,
    )
    assert isinstance(apply(world, "Job", job("bad")).error, Planted)
    monkeypatch.undo()
    assert world.state("bystanders/bad") == ""
    assert apply(world, "Job", job("bad")).error is None, "its name is free"
    others_go_on(world)


def test_what_is_done_for_a_job(world, monkeypatch):
    jobs = world.scheduler.jobs
    fails_for(monkeypatch, jobs.members, "want", lambda job, keys: job.spec.name == "bad")
    assert apply(world, "Job", job("bad")).error is None
    others_go_on(world)
    assert counted(world) == {"job": 1}
    rows = read_result(ListJobs(), world.request(ListJobs(name="bystanders/bad")).results[0], None)
    assert rows[0].reason == "internal error of the head: Planted: a plank is loose"


def test_an_alarm_of_a_job(world, monkeypatch):
    table = world.scheduler.jobs.table
    for name in ("bad", "good"):
        assert apply(world, "Job", job(name, ttl_s=5.0)).error is None
    world.rounds()
    for name in ("bad", "good"):
        world.end_members(0, of=f"bystanders/{name}")
    fails_for(monkeypatch, table, "_drop", lambda job: job.spec.name == "bad")
    world.rounds(10)
    assert world.state("bystanders/good") == "", "it is forgotten in time"
    assert counted(world) == {"job": 1}
    others_go_on(world)


def test_a_flow(world, monkeypatch):
    flows = world.scheduler.job_requests.flows
    fails_for(monkeypatch, flows, "_submit", lambda spec: spec.name.startswith("bad"))
    apply(world, "JobTemplate", job("step"))
    for name in ("bad", "good"):
        flow = FlowSpec(name=name, namespace="bystanders", steps=(Step(name="step"),))
        assert apply(world, "JobFlow", flow).error is None
    world.rounds()
    found = {flow.spec.name: flow.state for flow in flows.table.all()}
    assert found == {"bad": states.FAILED, "good": states.RUNNING}
    assert counted(world) == {"flow": 1}
    others_go_on(world)


def test_a_cron_job(world, monkeypatch):
    crons = world.scheduler.job_requests.crons
    for name in ("bad", "good"):
        cron = CronSpec(name=name, namespace="bystanders", schedule="@every 5s", job=job("j"))
        assert apply(world, "CronJob", cron).error is None
    fails_for(monkeypatch, crons.table, "_check", lambda cron, now: cron.spec.name == "bad")
    world.rounds(8)
    made = {cron.spec.name: bool(cron.active) for cron in crons.table.all()}
    assert made == {"bad": False, "good": True}
    assert counted(world) == {"cron": 1}, "it is not looked at again and again"
    others_go_on(world)


def test_a_plugin_that_only_prefers_nodes(world, monkeypatch):
    fails_for(monkeypatch, Binpack, "open", lambda plugin, session: True)
    others_go_on(world)
    assert counted(world) == {"plugin": 1}, "cycles do without it"
    assert world.head.internal_errors.rows["plugin"].last.startswith("binpack: Planted")


def test_a_connection(world):
    ends, far = socket.socketpair(), socket.socketpair()
    found: list[Any] = []

    class Handler:
        def on_message(self, connection, message):
            raise Planted

        def on_lost(self, connection):
            found.append("lost")

        def on_tick(self, now):
            pass

        def on_round(self):
            pass

    with tempfile.TemporaryDirectory(prefix="phb-", dir="/tmp") as directory:
        listener = listen(f"{directory}/s")
        loop = ConnectionLoop(Handler(), listener, report_defect=found.append)
        for near, _ in (ends, far):
            loop.watch(Connection(near))
        ends[1].sendall(encode_frame([Leave("x")]))
        loop._receive(next(iter(loop._connections.values())))
        listener.close()
    assert [type(one) for one in found] == [Planted, str]
    assert len(loop._connections) == 1, "the other one stays"
    for one in (*ends, *far):
        one.close()


def test_a_message_of_a_node(world, monkeypatch):
    gangs = world.scheduler
    fails_for(monkeypatch, gangs, "member_news", lambda node, news: news.reason == "bad")
    news = [
        MemberNews(GangId(GroupId(bytes(18))), 0, 1, 1, "bad"),
        NodeReport(available={"CPU": 1.0}),
    ]
    world.forget()
    world.hear(A, Reported(7, encode_body(news)))
    assert world.head.nodes.row("6e" * 28).available == {"CPU": 1.0}, "the next is taken in"
    assert any(getattr(message, "token", 0) == 7 for _, message in world.told), "it is not repeated"
    assert counted(world) == {"message": 1}
    monkeypatch.undo()
    others_go_on(world)


@pytest.mark.parametrize("part", ["actors", "group_table", "nodes", "events"])
def test_a_part_that_fails_at_every_tick(world, monkeypatch, part):
    table = {"actors": "actor_table"}.get(part, part)
    fails_for(monkeypatch, getattr(world.head, table), "tick", lambda now: True)
    others_go_on(world)
    assert set(counted(world)) == {"tick"}


def test_an_actor(world, monkeypatch):
    actors = world.head.actors
    for number in (1, 2):
        spec = ActorSpec(bytes([number]) * 16, f"Class{number}", place={"CPU": 9.0})
        assert world.request(RegisterActor(spec, b"", [])).error is None
    fails_for(monkeypatch, actors, "_follow", lambda record, choice: record.class_name == "Class1")
    more = {**TOTAL, "CPU": 99.0}
    for node in NODES:
        world.hear(node, NodeReport(available=more, total=more))
    world.rounds(3)
    states = {one.class_name: one.node != "" for one in world.head.actor_table.all()}
    assert states["Class2"]
    assert counted(world).keys() == {"actor"}
    others_go_on(world)


def test_what_was_written_of_one_job_does_not_keep_the_next_head_from_its_work(world, monkeypatch):
    from phalanx.head.jobs.lifecycle import JobTable

    first = world.submit_bystander()
    apply(world, "Job", job("bad"))
    world.rounds()
    fails_for(monkeypatch, JobTable, "_set_alarms", lambda table, record: record.spec.name == "bad")
    world.restart()
    world.rounds()
    assert counted(world) == {"job": 1}
    assert world.state(first) == states.RUNNING
    others_go_on(world)


def test_people_see_it(world):
    world.head.internal_errors.add("job", KeyError("x\x1b[2J"), "default/j")
    status = read_result(GetStatus(), world.request(GetStatus()).results[0], None)
    text = status_text(status, "1")
    assert "defects: 1 job" in text
    assert "job: default/j: KeyError: 'x\\x1b[2J'" in text
    assert "\x1b" not in text
    assert as_data(status, "1")["defects"]["job"]["count"] == 1
