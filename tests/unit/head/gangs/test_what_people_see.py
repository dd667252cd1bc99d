"""Jobs and nodes as people see them: the reasons why jobs wait, running work, and ages."""

from __future__ import annotations

import pytest
from tests.world.cluster import World, stored_world

from phalanx.cli.cluster_view import node_columns, status_text
from phalanx.cli.job_list import JOBS
from phalanx.cli.listing import listing
from phalanx.errors import JobCommandError, JobNotFoundError, QueueUnavailableError
from phalanx.model.jobs.spec import UNLIMITED, Process, TaskGroup, Template
from phalanx.protocol.bundle_messages import MemberNews, StartMember
from phalanx.protocol.report_messages import NodeReport
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.jobs import CommandJob, GetJob, ListJobs
from phalanx.protocol.requests.queues import CreateQueue, QueueFields

PROCESS = Process(command=("true",), requests=(("CPU", 1.0),))


def group(replicas=1, name="a"):
    template = Template(processes=(PROCESS,), restart="Never")
    return TaskGroup(name=name, replicas=replicas, template=template)


def settle(world):
    """Let the nodes carry out all orders, and let their commands run."""
    for _ in range(4):
        world.cycles()
        world.run()
        for node, order in world.told:
            if isinstance(order, StartMember):
                news = MemberNews(order.group, order.index, order.attempt, log="x")
                world.hear(node, news)
        world.forget()


@pytest.fixture
def world():
    """Return a world with a node of four CPUs, and a queue that may hold one CPU."""
    world = World()
    world.add("n1", CPU=4.0)
    world.ask(CreateQueue("team", QueueFields(capability={"CPU": 1.0})))
    return world


def row(world, name="job"):
    return world.ask(ListJobs(name=name))[0]


def test_a_queue_at_its_cap_is_named_and_no_node(world):
    world.job(group(), queue="team")
    settle(world)
    world.job(group(), name="late", queue="team")
    world.cycles(2)
    cap = "queue team may hold 1 CPU and holds 1; this asks for 1 more"
    assert row(world, "late").reason == cap
    said = str(world.ask(Explain("late")))
    assert cap in said
    assert "node" not in said
    assert "free 1 CPU in queue team" in said


def test_nothing_is_to_be_freed_by_less_than_nothing(world):
    """One node has too few CPUs and another one has enough, so the job does not wait for CPUs of a
    node.
    """
    world.add("n2", CPU=0.5)
    world.job(group(), queue="team")
    settle(world)
    world.job(group(), name="late", queue="team")
    world.cycles(2)
    assert "free -" not in str(world.ask(Explain("late")))


def test_what_does_not_wait_is_told_apart(world):
    world.job(group(), group(name="b"))
    world.cycles()
    assert "does not wait: it is being placed" in str(world.ask(Explain("job")))
    settle(world)
    assert "does not wait: it runs" in str(world.ask(Explain("job")))
    world.evict([0, 1], world.gang_of())
    assert "it gives its places back, and will wait again" in str(world.ask(Explain("job")))
    world.ask(CommandJob("job", "suspend"))
    settle(world)
    found = world.ask(Explain("job"))
    assert (found.kind, found.waits) == ("job", False)
    assert "it is Aborted (AbortJob: by command)" in str(found)


def test_names_that_nobody_has_are_answered_with_the_nearest(world):
    world.job(group(), name="training")
    for request in (GetJob("trainin"), Explain("trainin")):
        with pytest.raises(JobNotFoundError, match="did you mean 'training'"):
            world.ask(request)
    world.ask(CommandJob("training", "cancel"))
    settle(world)
    with pytest.raises(JobNotFoundError, match="did you mean 'training'"):
        world.ask(Explain("trainin"))  # its gang has ended
    with pytest.raises(JobCommandError, match="or delete it: `phalanx delete training`"):
        world.job(group(), name="training")
    with pytest.raises(QueueUnavailableError, match="did you mean 'team'"):
        world.ask(ListJobs(queue="tem"))
    with pytest.raises(JobCommandError, match="did you mean 'Running'"):
        world.ask(ListJobs(state="runing"))
    assert world.ask(ListJobs(queue="team", state="pending")) == []


def test_a_gang_that_lacks_room_for_one_says_how_far_it_came(world):
    world.add("n2", CPU=1.0)
    world.job(group(8), name="wide", min_available=8)
    world.cycles(2)
    assert row(world, "wide").state == "Pending"
    settle(world)
    world.job(group(3), name="fits", min_available=3)
    settle(world)
    world.job(group(3), name="late", min_available=3)
    world.cycles(2)
    assert row(world, "late").reason == (
        "2 of 3 tasks would find room, so none starts: 1 more needs 1 CPU"
    )
    assert all(not member.devices for member in world.ask(GetJob("late")).members)


def test_the_age_of_a_job_is_the_time_since_it_was_submitted(world):
    world.job(group())
    settle(world)
    before = row(world).age_s
    world.ask(CommandJob("job", "cancel"))
    world.now += 3600.0
    assert row(world).age_s == pytest.approx(before + 3600.0)
    assert world.ask(GetJob("job")).age_s == pytest.approx(before + 3600.0)
    assert listing(JOBS, [row(world)], "age").split() == ["AGE", "1h"]


def test_the_death_of_a_node_is_no_eviction():
    world = World()
    world.add("n1")
    world.add("n2")
    world.job(group(2), min_available=2)
    settle(world)
    world.kill("n1")
    settle(world)
    reasons = [member.reason for member in world.ask(GetJob("job")).members]
    assert sorted(filter(None, reasons)) == ["its node n1 died"]


@pytest.mark.parametrize(("max_retry", "state"), [(3, "Failed"), (UNLIMITED, "Running")])
def test_a_job_without_a_limit_outlives_its_nodes(max_retry, state):
    world = World()
    for node in ("n1", "n2", "n3"):
        world.add(node)
    world.job(group(), max_retry=max_retry)
    settle(world)
    for _ in range(2):
        world.kill(world.ask(GetJob("job")).members[0].node)
        settle(world)
    job = world.ask(GetJob("job"))
    assert job.state == state
    assert ("2 nodes died" in job.reason) == (state == "Failed")


def test_the_group_of_a_gang_that_gave_its_places_back_is_not_created(world):
    world.job(group(4))
    settle(world)
    assert [g["state"] for g in world.ask(GetStatus()).groups] == ["CREATED"]
    world.evict(range(4), world.gang_of())
    world.run()
    assert [g["state"] for g in world.ask(GetStatus()).groups] == ["RESCHEDULING"]


def test_why_a_job_failed_is_said(world):
    world.job(group(2), min_available=2)
    settle(world)
    gang = world.gang_of()
    for index, code in ((1, 3), (0, 0)):
        order = gang.members[index]
        news = MemberNews(gang.gang_id, index, order.attempt, code=code)
        world.hear("n1", news)
    assert "a-1: exit code 3" in row(world).reason
    settle(world)
    assert "does not wait: it is Failed" in str(world.ask(Explain("job")))


def test_gangs_and_jobs_are_counted_in_the_status(world):
    world.job(group(), name="runs")
    settle(world)
    world.job(group(8), name="waits")
    world.cycles()
    text = status_text(world.ask(GetStatus()), "1")
    assert "jobs: 1 Pending, 1 Running\n" in text
    assert "gangs of programs and jobs: 1 running, 0 set aside, 1 waiting" in text


def test_what_is_free_where_nothing_that_waits_fits_is_stranded(world):
    world.job(group(), name="runs")
    settle(world)
    process = Process(command=("true",), requests=(("CPU", 4.0),))
    large = TaskGroup(name="a", replicas=1, template=Template(processes=(process,)))
    world.job(large, name="waits")
    world.hear("n1", NodeReport(available={"CPU": 3.0}))
    world.cycles()
    status = world.ask(GetStatus())
    assert status.stranded == {"n1": {"CPU": 3.0}}
    assert "CPU 1/4; 3 stranded" in status_text(status, "1")
    columns = node_columns(status.nodes, status.stranded, {}, False)
    assert "STRANDED" in listing(columns, status.nodes)
    world.hear("n1", NodeReport(available={"CPU": 3.0}, queued=[({"CPU": 1.0}, 5)]))
    world.cycles()
    assert world.ask(GetStatus()).stranded == {}, "tasks that wait can use it"
    assert "STRANDED" not in listing(node_columns(status.nodes, {}, {}, False), status.nodes)


def shown_nodes(world):
    status = world.ask(GetStatus())
    return listing(node_columns(status.nodes, {}, {}, False), status.nodes)


def test_a_node_that_is_awaited_shows_nothing_as_used():
    world = stored_world()
    world.add("n1", CPU=4.0)
    world.write()
    world.restart()
    text = status_text(world.ask(GetStatus()), "1")
    assert "1 have not reported since the head restarted" in text
    assert "?/4" in shown_nodes(world)
    assert "4/4" not in shown_nodes(world)
    world.hear("n1", NodeReport(available={"CPU": 0.0}))
    assert "4/4" in shown_nodes(world)


def test_of_one_member_nothing_is_said_of_gangs_and_roles(world):
    """A job with one member is not shown to its user as a gang."""
    world.job(group(), queue="team")
    settle(world)
    world.job(group(), queue="team", name="next")
    settle(world)
    explanation = world.ask(Explain("next"))
    assert explanation.main == "queue team may hold 1 CPU and holds 1; this asks for 1 more"
    assert not [line for line in explanation.lines() if "role" in line or "so none starts" in line]
    world.job(group(2), queue="team", name="two")
    settle(world)
    assert [line for line in world.ask(Explain("two")).lines() if "so none starts" in line]
