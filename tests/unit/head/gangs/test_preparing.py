"""Members whose runtime environments are prepared before they begin: on the node, and at the
head.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.head.gangs.test_members_on_node import GROUP, Node
from tests.world.cluster import World, one_node
from tests.world.store import Journal

from phalanx.api.new_manifests import job_manifest
from phalanx.model.environments import Environment
from phalanx.model.jobs.spec import JobSpec, Policy, Process, TaskGroup, Template
from phalanx.model.member_logs import preparing_log
from phalanx.node.preparations import KNOWN_S, last_lines
from phalanx.protocol.bundle_messages import (
    BeginMember,
    Command,
    EndMember,
    MemberNews,
    MemberPrepares,
    StartMember,
)
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.jobs import ApplyManifests, GetJob

PREPARE = Command(["prepare"], {})


# ---- on the node ---------------------------------------------------------------------------------


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def begin(node: Node, attempt: int = 1) -> None:
    node.members.begin_prepared(BeginMember(GROUP, 0, attempt))


def told_of_running(node: Node) -> list[int | None]:
    return [news.code for news in node.news if isinstance(news, MemberNews)]


def test_a_member_prepares_then_waits_then_begins(node):
    node.start(prepare=PREPARE, time_limit_s=10.0)
    begin(node)
    node.start(prepare=PREPARE, time_limit_s=10.0)
    assert len(node.processes) == 1
    node.later(60)  # the time of the preparation is not the member's
    node.exits()
    assert [news.is_ready for news in node.news] == [False, False, True]
    assert len(node.processes) == 1
    begin(node)
    begin(node)
    assert len(node.processes) == 2
    assert told_of_running(node) == [None]
    node.later(9)
    node.exits()
    assert told_of_running(node) == [None, 0]


def test_a_preparation_that_fails_ends_the_member_with_the_last_lines(node):
    node.start(prepare=PREPARE)
    log = Path(preparing_log(node.news[0].log))
    log.write_text("$ pip install\n\nERROR: no such package\n")
    node.exits(3)
    (news,) = [one for one in node.news if isinstance(one, MemberNews)]
    assert (news.code, news.is_unprepared, news.is_nodes_fault) == (3, True, False)
    assert news.reason == "its environment could not be prepared:\nERROR: no such package"


@pytest.mark.parametrize("is_prepared", [False, True])
def test_a_member_that_is_ended_while_it_prepares_never_begins(node, is_prepared):
    node.start(prepare=PREPARE)
    if is_prepared:
        node.exits()
    node.end()
    if not is_prepared:
        assert node.signals == [("KILL", 0)]
        node.exits(137)
    begin(node)
    assert len(node.processes) == 1
    (news,) = [one for one in node.news if isinstance(one, MemberNews)]
    assert not news.is_unprepared


def test_a_member_alone_begins_at_once(node):
    node.start(prepare=PREPARE, is_alone=True)
    node.exits()
    assert (len(node.processes), told_of_running(node)) == (2, [None])


def test_a_member_that_did_not_succeed_is_cleaned_up_after(node):
    after = Command(["clean"], {}, "/")
    node.start(after=after)
    node.exits()
    assert len(node.processes) == 1, "it succeeded"
    node.start(2, after=after)
    node.exits(137)
    assert (len(node.processes), told_of_running(node)[-1]) == (3, 137)
    node.start(3, after=after)
    node.end(3)
    node.exits(0)
    assert len(node.processes) == 5


def test_a_node_remembers_for_a_time_what_it_has_prepared(node):
    about = {"prepare": PREPARE, "environment": "key"}
    node.start(**about)
    node.exits()
    begin(node)
    node.exits()
    node.news.clear()
    node.start(2, **about)
    assert [news.is_ready for news in node.news] == [True], "nothing is prepared again"
    begin(node, 2)
    node.exits()
    assert len(node.processes) == 3
    node.later(KNOWN_S + 1)
    node.news.clear()
    node.start(3, **about)
    assert [news.is_ready for news in node.news] == [False]


def test_the_last_lines_are_short_and_have_no_commands():
    text = "$ uv pip\n 10%\r 20%\r 100%\n\n" + "\n".join("ab") + "x" * 9999
    assert [line[:5] for line in last_lines(text)] == [" 100%", "a", "bxxxx"]
    assert len(last_lines("\n".join(map(str, range(100))))) == 8


# ---- at the head ---------------------------------------------------------------------------------


def submit(world: World, members: int, **fields: object) -> list[StartMember]:
    process = Process(command=("train",), requests=(("CPU", 1.0),))
    group = TaskGroup(
        name="a", replicas=members, min_available=members, template=Template(processes=(process,))
    )
    again = Policy(action="RestartJob", events=("PodFailed",))
    spec = JobSpec(
        name="job",
        groups=(group,),
        min_available=members,
        policies=(again,),
        environment=Environment(tool="pip", packages=("numpy",)),
        **fields,  # type: ignore[arg-type]
    )
    world.ask(ApplyManifests([job_manifest(spec)]))
    world.rounds(5)
    return world.started()


def prepares(world: World, order: StartMember, is_ready: bool) -> None:
    about = (order.group, order.index, order.attempt)
    world.hear("n0", MemberPrepares(*about, f"log{order.index}", is_ready))


def begun(world: World) -> list[int]:
    world.run()
    return [order.index for order in world.orders if isinstance(order, BeginMember)]


def test_no_member_begins_before_all_are_prepared():
    world = one_node(2)
    first, second = submit(world, 2)
    assert first.prepare is not None
    assert "environment.json" in first.files
    assert first.commands[0].argv[-1] == "train"
    prepares(world, first, is_ready=False)
    job = world.ask(GetJob("job"))
    assert (job.state, [m.state for m in job.members]) == ("Preparing", ["Preparing", "Pending"])
    assert "phalanx logs job --preparing" in job.reason
    assert [one.reason for one in world.ask(Explain("job")).because] == ["prepares"]
    prepares(world, first, is_ready=True)
    assert begun(world) == []
    prepares(world, second, is_ready=False)
    prepares(world, second, is_ready=True)
    assert begun(world) == [0, 1]
    for order in (first, second):
        world.hear("n0", MemberNews(order.group, order.index, order.attempt))
    job = world.ask(GetJob("job"))
    assert (job.state, [m.state for m in job.members]) == ("Running", ["Running"] * 2)


def test_a_failed_preparation_fails_the_job_at_once():
    world = one_node(2)
    first, second = submit(world, 2, max_retry=5)
    prepares(world, first, is_ready=True)
    about = (second.group, second.index, second.attempt)
    world.hear("n0", MemberNews(*about, 1, "no such package", "log", is_unprepared=True))
    world.rounds(5)
    job = world.ask(GetJob("job"))
    assert (job.state, job.retries) == ("Failed", 0)
    assert job.reason == "a-1: no such package"
    assert begun(world) == []
    assert [o.index for o in world.orders if isinstance(o, EndMember)] == [0]
    assert world.nodes["n0"] is not None
    assert len(world.started()) == 2


def test_a_head_that_restarts_hears_again_what_is_prepared():
    world = one_node(2, journal=Journal())
    first, second = submit(world, 2)
    prepares(world, first, is_ready=True)
    world.restart()
    world.join(world.nodes["n0"])
    world.rounds(5)
    prepares(world, second, is_ready=True)
    assert begun(world) == []
    prepares(world, first, is_ready=True)
    assert begun(world) == [0, 1]
