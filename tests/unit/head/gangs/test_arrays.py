"""Arrays at a head: which array tasks are kept as jobs, what is kept of the others, and a head that
restarts.
"""

from __future__ import annotations

import collections

import msgspec
import pytest
from tests.fuzz.world import PeopleWorld

from phalanx.api.new_manifests import job_manifest
from phalanx.errors import JobCommandError, JobNotFoundError
from phalanx.head.jobs import array_task_requests
from phalanx.head.jobs.arrays import WINDOW
from phalanx.manifests.arrays import read_array
from phalanx.manifests.dependencies import read_dependencies
from phalanx.model.ids import MemberId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.spec import JobSpec, Process, TaskGroup, Template
from phalanx.model.jobs.timing import Moment, Timing
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.jobs import (
    MAX_ROWS,
    ApplyManifests,
    CommandJob,
    DeleteJob,
    GetJob,
    ListElements,
    ListJobs,
    ResizeJob,
    UpdateJob,
)
from phalanx.protocol.requests.request import reply_type


def spec(indices, name="a", cpus=1.0, after="", replicas=1, **timing):
    process = Process(command=("true",), requests=(("CPU", cpus),))
    template = Template(processes=(process,))
    group = TaskGroup(name="w", replicas=replicas, min_available=replicas, template=template)
    return JobSpec(
        name=name,
        groups=(group,),
        min_available=replicas,
        array=read_array(indices) if indices else None,
        after=read_dependencies(after, "default") if after else None,
        timing=Timing(**timing),
    )


class Cluster(PeopleWorld):
    """A world with shortcuts to submit arrays, read their rows and end their members."""

    def do(self, request):
        answer = self.request(request)
        if answer.error is not None:
            raise answer.error
        (result,) = answer.results
        is_encoded = isinstance(result, msgspec.Raw)
        return (
            msgspec.msgpack.decode(result, type=reply_type(type(request))) if is_encoded else result
        )

    def submit(self, indices, **more):
        self.do(ApplyManifests([job_manifest(spec(indices, **more))]))
        return self

    def info(self, name="a"):
        (row,) = self.do(ListJobs(name=name))
        return row

    def counts(self, name="a"):
        row = self.info(name)
        return row.pending, row.running, row.succeeded, row.failed

    def states(self, name="a"):
        return [(row.name, row.state) for row in self.do(ListElements(name))]

    def end(self, place: MemberId, code: int) -> None:
        super().end(place, code)
        self.rounds()

    def ends(self, code=0, count=None):
        """End this many of the running members with a code; return their jobs."""
        chosen = list(self.running.items())[:count]
        for place, _ in chosen:
            super().end(place, code)
        self.rounds()
        return [order.job for _, order in chosen]


@pytest.fixture
def world():
    return Cluster()


def environment(order):
    return order.commands[0].variables


def test_an_array_runs_each_element_once_and_completes(world):
    world.submit("0-29").rounds(3)
    done: collections.Counter[str] = collections.Counter()
    while world.running:
        done.update(world.ends())
    assert set(done.values()) == {1}
    assert sorted(done) == sorted(f"default/a[{i}]" for i in range(30))
    assert world.info().state == st.COMPLETED
    assert world.info().reason == "all 30 array tasks completed"
    assert world.states() == [("a[0-29]", st.COMPLETED)]


def test_elements_know_who_they_are(world):
    world.submit("3,7-11:2%2").rounds(3)
    (first, second) = sorted(world.running.values(), key=lambda order: order.job)
    assert [first.job, second.job] == ["default/a[3]", "default/a[7]"]
    found = {k: v for k, v in environment(second).items() if "ARRAY" in k or k == "PHALANX_JOB"}
    assert found == {
        "PHALANX_JOB": "a[7]", "PHALANX_ARRAY_JOB": "a", "PHALANX_ARRAY_INDEX": "7",
        "PHALANX_ARRAY_COUNT": "4", "PHALANX_ARRAY_MIN": "3", "PHALANX_ARRAY_MAX": "11",
        "PHALANX_ARRAY_STEP": "1",
    }  # fmt: skip


def test_no_more_run_at_once_than_the_array_says(world):
    world.submit("0-9%2").rounds(3)
    while world.running:
        assert len(world.running) <= 2
        world.ends(count=1)
    assert world.info().succeeded == 10


def test_only_so_many_wait_at_the_scheduler(world):
    world.submit("0-999999").rounds(3)
    gangs = world.scheduler.registry.gangs
    assert len(gangs) == WINDOW + len(world.running)
    assert world.info().replicas == 1_000_000
    assert world.counts()[0] == 1_000_000 - len(world.running)


def test_rows_of_elements_have_a_limit(world, monkeypatch):
    world.submit("0-19", is_held=True).rounds(1)
    world.do(CommandJob("a[1-19:2]", "cancel"))
    assert len(world.states()) == 20 <= MAX_ROWS
    monkeypatch.setattr(array_task_requests, "MAX_ROWS", 5)
    assert [name for name, _ in world.states()] == [f"a[{i}]" for i in range(5)]


def test_an_element_that_fails_fails_the_array_once_all_are_over(world):
    world.submit("0-9%5").rounds(3)
    failed = world.ends(3, count=1)
    while world.running:
        world.ends()
    assert world.info().state == st.FAILED
    assert world.info().reason == "9 of 10 array tasks completed, 1 failed"
    assert ("a[0]", st.FAILED) in world.states()
    assert failed == ["default/a[0]"]
    (element,) = world.do(ListElements("a[0]"))
    assert (element.exit_code, element.starts) == (3, 1)
    member = world.do(GetJob("a[0]")).members[0]
    assert member.exit_code == 3
    assert member.logs[0].path == "x"


def test_gangs_may_be_elements(world):
    world.submit("0-3", replicas=2, cpus=2.0).rounds(3)
    world.ends(count=1)
    while world.running:
        world.ends()
    assert world.info().state == st.COMPLETED


def test_some_elements_are_cancelled(world):
    world.submit("0-9%3").rounds(3)
    world.do(CommandJob("a[1-4,20]", "cancel"))
    world.rounds(3)
    with pytest.raises(JobCommandError, match="none of these array tasks waits or runs"):
        world.do(CommandJob("a[3]", "cancel"))
    done = []
    while world.running:
        done += world.ends()
    assert not {f"default/a[{i}]" for i in (1, 2, 3, 4)} & set(done)
    assert world.info().reason == "6 of 10 array tasks completed, 4 were ended"


@pytest.mark.parametrize(("name", "said"), [
    ("a[20]", "has no task 20; it has 0-9%3"),
    ("a[x]", "an array is like"),
    ("a[]", "an array is like"),
    ("a[0-99999999999]", "at most 2,147,483,647"),
    ("plain[3]", "is not an array"),
    ("nobody[3]", "there is no job 'nobody'"),
])  # fmt: skip
def test_what_is_no_element_is_refused(world, name, said):
    world.submit("0-9%3").submit("", name="plain").rounds(1)
    for request in (CommandJob(name, "cancel"), ListElements(name), GetJob(name)):
        with pytest.raises((JobCommandError, JobNotFoundError), match=said):
            world.do(request)


def test_only_whole_arrays_are_changed(world):
    world.submit("0-9%3").rounds(3)
    for request in (
        CommandJob("a[2]", "hold"), DeleteJob("a[2]"), UpdateJob("a[2]", priority=4),
        ResizeJob("a", {"": 4}),
    ):  # fmt: skip
        with pytest.raises(JobCommandError):
            world.do(request)


def test_a_held_array_begins_nothing_and_goes_on_when_released(world):
    world.submit("0-9%3").rounds(3)
    world.do(CommandJob("a", "hold"))
    world.rounds(3)
    while world.running:
        world.ends()
    assert world.info().succeeded == 3
    assert world.info().reason == "it is held"
    world.do(CommandJob("a", "release"))
    world.rounds(3)
    while world.running:
        world.ends()
    assert world.info().state == st.COMPLETED


def test_a_suspended_array_runs_its_elements_again_when_resumed(world):
    world.submit("0-9%3").rounds(3)
    world.ends(count=1)
    world.do(CommandJob("a", "suspend"))
    world.rounds(5)
    assert world.info().state == st.ABORTED
    assert not world.running
    world.do(CommandJob("a", "resume"))
    world.rounds(5)
    done = []
    while world.running:
        done += world.ends()
    assert len(done) == 9
    assert world.info().state == st.COMPLETED


def test_elements_that_run_are_requeued(world):
    world.submit("0-3%2").rounds(3)
    world.do(CommandJob("a[0-3]", "requeue"))
    world.rounds(5)
    done = []
    while world.running:
        done += world.ends()
    assert len(done) == 4
    rows = {row.name: row.starts for row in world.do(ListElements("a[0]"))}
    assert rows == {"a[0]": 2}
    with pytest.raises(JobCommandError, match="none of these array tasks runs"):
        world.do(CommandJob("a[0]", "requeue"))


@pytest.mark.parametrize("what", ["cancel", "delete"])
def test_a_whole_array_ends(world, what):
    world.submit("0-9%3").rounds(3)
    world.do(CommandJob("a", "cancel") if what == "cancel" else DeleteJob("a"))
    world.rounds(5)
    assert not world.running
    if what == "cancel":
        assert world.info().state == st.TERMINATED
        assert world.counts() == (0, 0, 0, 0)
        assert world.states() == [("a[0-2]", st.TERMINATED), ("a[3-9]", st.TERMINATED)]
    else:
        assert world.do(ListJobs()) == []
        assert not list(world.journal.storage.load("elements"))


def test_others_wait_for_whole_arrays_and_arrays_for_others(world):
    world.submit("", name="first").submit("0-3", after="afterok:first")
    world.submit("", name="last", after="afterany:a").rounds(3)
    assert [order.job for order in world.running.values()] == ["default/first"]
    assert world.info().reason == "it waits until first has completed (afterok)"
    world.ends()
    assert world.info("last").state == st.PENDING
    assert len(world.ends()) == 4
    assert [order.job for order in world.running.values()] == ["default/last"]


def test_an_element_waits_for_that_of_another_array(world):
    world.submit("0-3%2", name="first").submit("0-3", name="b", after="aftercorr:first")
    world.submit("0-3", name="c", after="aftercorr:b").rounds()
    assert {order.job for order in world.running.values()} == {
        "default/first[0]", "default/first[1]"
    }  # fmt: skip
    assert world.do(ListElements("b[0]"))[0].reason == (
        "the same task of first has not completed (aftercorr)"
    )
    first = next(p for p, order in world.running.items() if order.job == "default/first[1]")
    world.end(first, 0)
    assert "default/b[1]" in {order.job for order in world.running.values()}
    assert "default/b[0]" not in {order.job for order in world.running.values()}
    first = next(p for p, order in world.running.items() if order.job == "default/first[0]")
    world.end(first, 1)
    assert world.states("b")[0] == ("b[0]", st.DEPENDENCY_FAILED)
    assert world.states("c")[0] == ("c[0]", st.DEPENDENCY_FAILED)
    world.do(DeleteJob("first"))
    world.restart()
    world.rounds()
    done = []
    while world.running:
        done += world.ends()
    assert not world.running
    assert world.info("b").reason == "1 of 4 array tasks completed, 3 were ended"
    assert world.info("c").reason == "1 of 4 array tasks completed, 3 were ended"
    assert not {f"default/c[{i}]" for i in (0, 2, 3)} & set(done)
    with pytest.raises(JobNotFoundError):
        world.info("first")


def test_elements_whose_pairs_have_ended_begin_at_the_begin_time_of_their_array(world):
    world.submit("0-1", name="first")
    begin = Moment(after_s=5.0)
    world.submit("0-1", name="b", after="aftercorr:first", begin=begin).rounds()
    assert sorted(world.ends()) == ["default/first[0]", "default/first[1]"]
    world.rounds(8)
    assert sorted(order.job for order in world.running.values()) == ["default/b[0]", "default/b[1]"]


def test_elements_that_ended_with_their_array_wait_for_nobody_any_more(world):
    world.submit("0-1", name="first")
    world.submit("0-1", name="b", after="aftercorr:first").rounds()
    world.do(CommandJob("b", "cancel"))
    world.rounds()
    counted = world.counts("b")
    for place in list(world.running):
        world.end(place, 1)
    assert (world.counts("b"), world.info("b").state) == (counted, st.TERMINATED)
    assert not world.internal_errors


def test_a_long_chain_of_arrays_ends_together(world):
    world.submit("0-1", name="n0", is_held=True)
    for number in range(400):
        world.submit("0-1", name=f"n{number + 1}", after=f"aftercorr:n{number}")
    world.do(CommandJob("n0", "cancel"))
    world.rounds()
    assert world.info("n400").state == st.FAILED
    assert not world.internal_errors


@pytest.mark.parametrize(("indices", "after", "said"), [
    ("0-9", "aftercorr:first", "has no task 4; use only indices .* 0-3"),
    ("", "aftercorr:first", "default/b is not an array"),
    ("0-3", "aftercorr:plain", "default/plain is not an array"),
])  # fmt: skip
def test_what_cannot_be_paired_is_refused(world, indices, after, said):
    world.submit("0-3", name="first").submit("", name="plain")
    with pytest.raises(JobCommandError, match=said):
        world.submit(indices, name="b", after=after)
    with pytest.raises(ValueError, match="about each array task"):
        spec("0-3", after="aftercorr:first?afterok:plain")


def test_elements_have_the_time_of_the_array_each(world):
    world.submit("0-15", limit_s=30.0).rounds(40)
    rows = world.states()
    assert ("TimeOut" in {state for _, state in rows}) and world.info().state != st.TIMED_OUT


def test_one_line_lists_an_array_and_explains_what_waits_first(world):
    world.submit("0-99", cpus=3.0).rounds(3)
    (row,) = world.do(ListJobs())
    assert (row.kind, row.array, row.replicas) == ("array", "0-99", 100)
    assert row.position is not None
    assert "a[" in str(world.do(Explain("a")))
    assert "waits for its turn" in str(world.do(Explain("a[99]")))


@pytest.mark.parametrize("seed", range(6))
def test_a_head_that_comes_back_loses_no_element_and_runs_none_twice(world, seed):
    done: collections.Counter[str] = collections.Counter()
    world.submit("0-39%7").rounds(2 + seed % 3)
    for turn in range(400):
        if not world.running and world.info().state in st.FINISHED:
            break
        done.update(world.ends(count=1 + (turn + seed) % 3))
        if turn % 3 == seed % 3:
            world.restart()
            world.rounds(1 + turn % 3)
    assert world.info().state == st.COMPLETED
    assert done == {f"default/a[{i}]": 1 for i in range(40)}
    assert not world.internal_errors


@pytest.mark.parametrize("kept", range(0, 60, 3))
def test_a_head_that_died_in_the_middle_of_writing_loses_no_element(world, kept):
    """The head may have written only the beginning of its changes."""
    world.submit("0-19%6").rounds(2)
    log: list[object] = []
    record = world.journal.record

    def writes(changes, durable=None):
        if len(log) < kept:
            log.append(changes)
            record(changes, durable)

    world.journal.record = writes
    world.scheduler.jobs.work_off()
    first = world.ends(count=4)
    world.journal.record = record
    world.restart()
    world.rounds(4)
    later = []
    while world.running:
        later += world.ends()
    assert world.info().state == st.COMPLETED
    assert {*first, *later} == {f"default/a[{i}]" for i in range(20)}
