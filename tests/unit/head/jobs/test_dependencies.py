"""Jobs that depend on other jobs: every kind of dependency, `all` and `any`, dependencies that can
never be met, and a restart.
"""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.head.jobs.shell import J, Shell

from phalanx.head.jobs import events as ev
from phalanx.head.jobs.lifecycle import JobTable
from phalanx.head.jobs.podgroup import podgroup_of
from phalanx.head.jobs.time_limits import why_held_back
from phalanx.manifests.dependencies import (
    dependency_faults,
    read_dependencies,
    written_dependencies,
)
from phalanx.model.ids import JobId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.dependencies import MAX_DEPENDENCIES
from phalanx.model.jobs.records import JobCommandError, JobRecord
from phalanx.model.jobs.spec import JobSpec, TaskGroup
from phalanx.model.jobs.timing import Moment, Timing


class Line(Shell):
    """Several jobs of one member each. A script of words `job:event` plays their events."""

    def __init__(self) -> None:
        super().__init__(spec("j"))

    def tell_jobs(self) -> None:
        while self.awaiting:
            self.table.handle(
                ev.DependencyChanged(job=JobId(self.awaiting.pop(0))), self.wall, self.now
            )

    def handle(self, event: ev.Event) -> None:
        super().handle(event)
        self.tell_jobs()

    def submit(self, name: str, after: str = "", **timing) -> Line:
        self.handle(ev.Submitted(spec=spec(name, after, **timing)))
        return self

    def go(self, script: str) -> Line:
        for word in script.split():
            name, _, what = word.partition(":")
            if name == "at":
                self.now = float(what)
                self.table.tick(self.wall, self.now)
                self.tell_jobs()
                continue
            job = f"default/{name}"
            if what in ("cancel", "suspend", "resume"):
                action = {"cancel": st.TERMINATE_JOB, "suspend": st.ABORT_JOB}
                self.handle(ev.Commanded(job=JobId(job), action=action.get(what, st.RESUME_JOB)))
            elif what == "delete":
                self.handle(ev.Deleted(job=JobId(job)))
            else:
                self.member(job, what)
        return self

    def member(self, job: str, what: str) -> None:
        about = {"job": job, "group": "a", "index": 0, "attempt": self.of_job(job).attempt}
        if what == "run":
            self.handle(ev.MemberRan(**about, node="n"))
        else:
            code = {"ok": 0, "fail": 1, "gone": 143}[what]
            self.handle(ev.MemberExited(**about, exit_code=code))

    def of_job(self, job: str):
        record = self.table.get(job)
        assert record is not None
        return record.members[0]

    def state(self, name: str) -> str:
        """Return a job's state; `Held` while it waits for others."""
        record = self.table.get(f"default/{name}")
        if record is None:
            return "gone"
        return "Held" if why_held_back(record, self.wall) is not None else record.state

    def record(self, name: str) -> JobRecord:
        record = self.table.get(f"default/{name}")
        assert record is not None
        return record

    def why(self, name: str) -> str:
        record = self.record(name)
        held = why_held_back(record, self.wall)
        return record.reason if held is None else held.sentence


def spec(name: str, after: str = "", **timing) -> JobSpec:
    group = TaskGroup(name="a")
    made = JobSpec(name=name, groups=(group,), timing=Timing(**timing))
    waits = read_dependencies(after, "default") if after else None
    return msgspec.structs.replace(made, after=waits)


OK, FAIL, CANCEL = "j:run j:ok", "j:run j:fail", "j:cancel j:gone"


@pytest.mark.parametrize(
    ("after", "script", "state"),
    [
        ("afterok:j", "", "Held"),
        ("afterok:j", "j:run", "Held"),
        ("afterok:j", OK, "Pending"),
        ("afterok:j", FAIL, "DependencyFailed"),
        ("afterok:j", CANCEL, "DependencyFailed"),
        ("afterok:j", "j:suspend", "Held"),
        ("afterok:j", "j:suspend j:gone j:resume j:run j:ok", "Pending"),
        ("afterany:j", "j:run", "Held"),
        ("afterany:j", OK, "Pending"),
        ("afterany:j", FAIL, "Pending"),
        ("afterany:j", CANCEL, "Pending"),
        ("afternotok:j", OK, "DependencyFailed"),
        ("afternotok:j", FAIL, "Pending"),
        ("afternotok:j", CANCEL, "Pending"),
        ("after:j", "", "Held"),
        ("after:j", "j:run", "Pending"),
        ("after:j", CANCEL, "Pending"),
        ("after:j+2", "at:50 j:run at:169", "Held"),
        ("after:j+2", "at:50 j:run at:170", "Pending"),
        ("after:j+2", "at:50 j:run j:ok at:169", "Held"),
        # a job that has gone was known as long as somebody waited for it
        ("afterok:j", f"{OK} j:delete", "Pending"),
        ("afterok:j", "j:run j:delete j:gone", "DependencyFailed"),
        ("afterany:j", "j:run j:delete", "Held"),
        ("afterany:j", "j:run j:delete j:gone", "Pending"),
        ("after:j+2", "j:run j:ok j:delete at:119", "Held"),
        ("after:j+2", "j:run j:ok j:delete at:120", "Pending"),
        # all of them, or any
        ("afterok:j,afterok:k", OK, "Held"),
        ("afterok:j,afterok:k", f"{OK} k:run k:ok", "Pending"),
        ("afterok:j:k", f"{OK} k:run k:fail", "DependencyFailed"),
        ("afterok:j:k", FAIL, "DependencyFailed"),
        ("afterok:j?afterok:k", OK, "Pending"),
        ("afterok:j?afterok:k", FAIL, "Held"),
        ("afterok:j?afterok:k", f"{FAIL} k:run k:ok", "Pending"),
        ("afterok:j?afterok:k", f"{FAIL} k:run k:fail", "DependencyFailed"),
    ],
)
def test_a_job_begins_to_wait_for_places_when_what_it_names_has_come_true(after, script, state):
    line = Line().submit("k").submit("d", after).go(script)
    assert line.state("d") == state
    assert line.of_job("default/d").attempt == (1 if state == "Pending" else 0)


def test_a_deleted_job_is_forgotten_as_soon_as_those_that_wait_for_it_know_its_end():
    line = Line().submit("d", "afterok:j").go(f"{OK} j:delete")
    assert line.table.get(J) is None
    assert line.forgotten == [J]


def test_what_can_never_come_true_passes_on_and_says_why():
    line = Line().submit("b", "afterok:j").submit("c", "afterok:b").submit("e", "afternotok:c")
    line.go(FAIL)
    assert [line.state(name) for name in "bce"] == ["DependencyFailed", "DependencyFailed",
                                                   "Pending"]  # fmt: skip
    assert line.why("c") == "it cannot start any more: afterok:default/b: b is DependencyFailed"


def test_a_long_chain_ends_without_growing_any_stack():
    line = Line().submit("n0", "afterok:j")
    for number in range(3_000):
        line.submit(f"n{number + 1}", f"afterok:n{number}")
    line.go(FAIL)
    assert line.state("n3000") == "DependencyFailed"


def test_the_reason_names_the_kind_and_the_job():
    line = Line().submit("k").submit("d", "afterok:j,after:k+10")
    assert line.why("d") == (
        "it waits until j has completed (afterok) and until k has begun (after)"
    )
    line.go("k:run")
    assert "10m after k began (after)" in line.why("d")


def test_one_at_a_time_runs_of_those_with_a_word_and_of_that_name_in_their_order():
    line = Line().submit("train").submit("b", "singleton:train").submit("c", "singleton:train")
    assert [line.state(name) for name in ("train", "b", "c")] == ["Pending", "Held", "Held"]
    line.go("b:cancel b:gone")
    assert line.state("c") == "Held"  # as the first has not ended
    line.go("train:run train:fail")
    assert line.state("c") == "Pending"
    line.submit("d", "singleton:train")
    assert line.state("d") == "Held"
    assert line.why("d") == ("it waits until the earlier jobs of train have ended (singleton)")


def test_waiting_for_others_is_no_age_and_no_need():
    line = Line().submit("d", "afterany:j").go("at:100 j:run at:500 j:ok")
    assert podgroup_of(line.record("d")).created == 500


def test_deadlines_and_beginnings_hold_beside_it():
    line = Line().submit("d", "afterok:j", deadline=Moment(after_s=50.0)).go("at:50 d:gone")
    assert line.of_job("default/d").attempt == 0
    line = Line().submit("d", "afterok:j", begin=Moment(after_s=50.0)).go(OK)
    assert line.state("d") == "Held"
    assert line.go("at:50").state("d") == "Pending"


@pytest.mark.parametrize("script", [OK, FAIL, CANCEL, "j:run", ""])
@pytest.mark.parametrize("after", ["afterok:j", "afterany:j", "after:j+1", "singleton:j"])
def test_a_restart_forgets_no_outcome_whatever_row_was_written_last(script, after):
    before = Line().submit("d", after)
    stale = msgspec.msgpack.encode(before.table.get("default/d"))
    before.go(script)
    rows = [msgspec.msgpack.encode(job) for job in before.table.all()]
    for waiting in (stale, rows[1]):
        later = Line()
        later.table = JobTable(later)
        stored = [msgspec.msgpack.decode(row, type=JobRecord) for row in (waiting, rows[0])]
        later.table.restore(stored, before.wall, before.now)
        later.tell_jobs()
        later.go(f"at:{before.now + 60:g}")
        assert later.state("d") == before.go(f"at:{before.now + 60:g}").state("d")


@pytest.mark.parametrize("after", ["afterok:no", "afterok:j:nowhere/j"])
def test_a_job_that_waits_for_nobody_that_is_known_is_refused(after):
    with pytest.raises(JobCommandError, match=r"job default/d: after=.*no job is called 'no"):
        Line().submit("d", after)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("prep", "not a dependency.*afterok:prep:train"),
        ("afterokay:prep", "did you mean 'afterok'"),
        ("afterok", "names no job"),
        ("afterok:", "names no job"),
        ("afterok:a,", "not a dependency"),
        ("afterok:a,afterok:b?afterok:c", "not both"),
        ("afterok:a+5", "only after takes minutes"),
        ("after:a+9999999999", "not a valid name"),
        ("after:a+999999999", "s is more than"),
        ("singleton", "names one word"),
        ("singleton:a:b", "names one word"),
        ("afterok:\x1b[31m", "not a valid name"),
        ("afterok:a/b/c", "not a valid name"),
        ("", "not a dependency"),
    ],
)
def test_what_is_no_dependency_is_refused_with_what_is_right(written, said):
    with pytest.raises(ValueError, match=said) as caught:
        read_dependencies(written, "default")
    assert str(caught.value).isprintable()


def test_a_dependency_reads_as_it_was_written():
    text = "afterok:default/a,afterok:other/b,after:default/c+5,singleton:default/word"
    after = read_dependencies("afterok:a:other/b,after:c+5,singleton:word", "default")
    assert written_dependencies(after) == text
    assert read_dependencies(text, "elsewhere") == after


def test_a_job_cannot_wait_for_itself_nor_for_too_many():
    own = read_dependencies("afterok:d", "default")
    (fault,) = dependency_faults(own, "default/d")
    assert "wait for itself" in fault.reason
    names = [f"j{number}" for number in range(MAX_DEPENDENCIES + 1)]
    assert read_dependencies("afterok:" + ":".join(names[1:]), "default").needs
    with pytest.raises(ValueError, match="1,001 jobs; at most 1,000 are allowed"):
        read_dependencies("afterok:" + ":".join(names), "default")
