"""Flows, cron jobs and queues, tested by scripts of events and requests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs
from tests.effort import examples
from tests.unit.head.jobs.shell import job_spec

from phalanx.head.jobs import crons, flows
from phalanx.head.queues.table import QueueRecord, QueueTable
from phalanx.manifests.cron import parse_schedule
from phalanx.manifests.findings import ManifestError
from phalanx.manifests.patching import step_job
from phalanx.manifests.reading import read_checked
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import CronRecord, FlowRecord, JobCommandError
from phalanx.model.jobs.spec import CronSpec, FlowSpec, Step
from phalanx.scheduler.cycle.specs import QueueSpec

F, C = "default/f", "default/c"


class Kept:
    """Records the requested effects as lines of text."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def make_job(self, owner: FlowRecord | CronRecord, job: object) -> None:
        self.log.append(f"make {getattr(job, 'name', '')}")

    def watch(self, flow: FlowRecord, step: Step, number: int, probe: object) -> None:
        self.log.append(f"watch {step.name} {number}")

    def delete_jobs(self, flow: FlowRecord, steps: list[str]) -> None:
        self.log.append(f"delete {' '.join(steps)}")

    def delete_job(self, cron: CronRecord, name: str) -> None:
        self.log.append(f"delete {name}")

    def publish(self, record: object) -> None:
        pass

    def forget(self, record: object) -> None:
        self.log.append("forget")

    def take(self) -> list[str]:
        log, self.log = self.log, []
        return log


# ---- flows ---------------------------------------------------------------------------------------


def flow_spec(steps: str, more: str = "") -> FlowSpec:
    text = f"kind: JobFlow\nmetadata: {{name: f}}\nspec: {{flows: [{steps}]{more}}}"
    spec = read_checked(text)[0][0].spec
    assert isinstance(spec, FlowSpec)
    return spec


DIAMOND = """{name: a}, {name: b, dependsOn: {targets: [a]}},
  {name: c, dependsOn: {targets: [a]}}, {name: d, dependsOn: {targets: [b, c]}}"""


class Flow:
    def __init__(self, steps: str, more: str = "") -> None:
        self.kept = Kept()
        self.table = flows.FlowTable(self.kept)
        self.table.handle(flows.FlowSubmitted(spec=flow_spec(steps, more)), 0.0)

    def step(self, name: str, state: str, **members: dict[str, int]) -> list[str]:
        event = flows.StepChanged(flow=F, step=name, state=state, members=members)
        self.table.handle(event, 1.0)
        return self.kept.take()

    @property
    def state(self) -> str:
        flow = self.table.get(F)
        assert flow is not None
        return flow.state


def test_a_flow_runs_each_step_when_those_before_it_are_done():
    flow = Flow(DIAMOND, ", jobRetainPolicy: delete")
    assert (flow.kept.take(), flow.state) == (["make a"], st.PENDING)
    assert (flow.step("a", "Running"), flow.state) == ([], st.RUNNING)
    assert flow.step("a", "Completed") == ["make b", "make c"]
    assert flow.step("a", "Completed") == []
    assert flow.step("b", "Completed") == []
    assert flow.step("c", "Completed") == ["make d"]
    assert flow.step("d", "Completed") == ["delete a b c d"]
    assert flow.state == st.SUCCEED


def test_a_step_that_stands_there_twice_runs_once():
    text = "kind: JobFlow\nmetadata: {name: f}\nspec: {flows: [{name: a}, {name: a}]}"
    manifests, warnings = read_checked(text)
    assert [f.path for f in warnings if f.code == "duplicate_flow_name"] == ["spec.flows[1].name"]
    spec = manifests[0].spec
    assert isinstance(spec, FlowSpec)
    assert [step.name for step in spec.steps] == ["a"]


@pytest.mark.parametrize("state", ["Failed", "Terminated"])
def test_a_flow_fails_with_any_of_its_jobs(state):
    flow = Flow(DIAMOND)
    flow.step("a", "Completed")
    assert flow.step("b", state) == []
    assert flow.step("c", "Completed") == []
    assert flow.state == st.FAILED


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("worker-0: exit code 3", "the job of step a is Failed: worker-0: exit code 3"),
        ("", "the job of step a is Failed"),
    ],
)
def test_a_flow_that_has_run_says_why_it_failed(reason, said):
    flow = Flow(DIAMOND)
    flow.step("a", "Running")
    record = flow.table.get(F)
    assert record is not None
    assert record.state == st.RUNNING
    flow.table.handle(flows.StepChanged(flow=F, step="a", state="Failed", reason=reason), 1.0)
    assert (record.state, record.reason) == (st.FAILED, said)
    assert record.history[-1].reason == said


def test_a_flow_says_which_later_job_could_not_be_made():
    flow = Flow(DIAMOND)
    flow.step("a", "Running")
    flow.step("a", "Completed")
    flow.table.handle(flows.StepRefused(flow=F, step="b", reason="a name is taken"), 1.0)
    record = flow.table.get(F)
    assert record is not None
    assert (record.state, record.reason) == (st.FAILED, "step b: a name is taken")


def test_a_flow_whose_job_cannot_be_made():
    flow = Flow(DIAMOND)
    flow.table.handle(flows.StepRefused(flow=F, step="a", reason="there is no template a"), 1.0)
    record = flow.table.get(F)
    assert record is not None
    assert (record.state, record.reason) == (st.FAILED, "step a: there is no template a")


PROBES = """{name: a}, {name: b, dependsOn: {targets: [a], probe: {
  taskStatusList: [{taskName: ps, phase: Running}], tcpSocketList: [{taskName: ps, port: 80}]}}}"""


def test_a_step_begins_when_its_probes_have_passed():
    flow = Flow(PROBES)
    assert flow.kept.take() == ["watch b 1", "make a"]
    assert flow.step("a", "Running", ps={"Running": 1}) == []
    flow.table.handle(flows.ProbePassed(flow=F, step="b", probe=1), 2.0)
    assert flow.kept.take() == ["make b"]


def test_a_step_with_probes_begins_at_the_latest_when_its_targets_are_done():
    flow = Flow(PROBES)
    assert flow.step("a", "Completed")[-1:] == ["make b"]


def test_a_deleted_flow_takes_its_jobs_along():
    flow = Flow(DIAMOND)
    flow.step("a", "Completed")
    flow.kept.take()
    flow.table.handle(flows.FlowDeleted(flow=F), 2.0)
    assert flow.kept.take() == ["delete a b c", "forget"]
    assert flow.step("a", "Failed") == []
    with pytest.raises(JobCommandError, match="no flow"):
        flow.table.handle(flows.FlowDeleted(flow=F), 2.0)


def test_a_flow_goes_on_after_a_restart_of_the_store():
    flow = Flow(PROBES)
    record = msgspec.msgpack.decode(msgspec.msgpack.encode(flow.table.get(F)), type=FlowRecord)
    kept = Kept()
    table = flows.FlowTable(kept)
    table.restore([record], 5.0)
    assert kept.take() == ["watch b 1"]
    table.handle(flows.StepChanged(flow=F, step="a", state="Completed"), 6.0)
    assert kept.take() == ["make b"]


def test_a_template_is_changed_by_its_step():
    template = job_spec("queue: q, tasks: [{name: a, replicas: 2}, {name: b}]")
    flow = flow_spec("{name: t, patch: {jobSpec: {queue: z, tasks: [{name: a, replicas: 5}]}}}")
    job = step_job(flow, flow.steps[0], template)
    assert (job.name, job.queue, job.min_available) == ("f-t", "z", 6)
    assert [(g.name, g.replicas, g.min_available) for g in job.groups] == [("a", 5, 5), ("b", 1, 1)]
    bad = flow_spec("{name: t, patch: {jobSpec: {minAvailable: 9}}}")
    with pytest.raises(ManifestError, match="minAvailable is 9"):
        step_job(bad, bad.steps[0], template)


# ---- cron jobs -----------------------------------------------------------------------------------


def clock(text: str) -> float:
    return datetime.fromisoformat(f"2026-11-21 {text}").replace(tzinfo=UTC).timestamp()


class Cron:
    def __init__(self, schedule: str = "0 * * * *", start: str = "09:30", **fields: Any) -> None:
        self.kept = Kept()
        self.table = crons.CronTable(self.kept)
        job = job_spec("tasks: [{name: t}]")
        self.spec = CronSpec(name="c", schedule=schedule, job=job, **fields)
        self.table.handle(crons.CronSubmitted(spec=self.spec), clock(start))

    def at(self, time: str) -> list[str]:
        self.table.tick(clock(time))
        return self.kept.take()

    def ended(self, job: str, state: str, time: str) -> list[str]:
        self.table.handle(crons.CronJobEnded(cron=C, job=job, state=state), clock(time))
        return self.kept.take()


def name(time: str) -> str:
    return f"c-{int(clock(time)) // 60}"


def test_a_job_is_made_when_it_is_due():
    cron = Cron()
    assert cron.table.next_alarm() == clock("10:00")
    assert cron.at("09:59") == []
    assert cron.at("10:00") == [f"make {name('10:00')}"]
    assert cron.at("10:00") == []
    assert cron.table.next_alarm() == clock("11:00")


def test_of_many_that_were_missed_the_last_is_made_good():
    assert Cron("*/5 * * * *").at("23:59") == [f"make {name('23:55')}"]


def test_one_that_is_too_late_is_let_go():
    cron = Cron(starting_deadline_s=60.0)
    assert cron.at("10:02") == []
    assert cron.ended("another", "Failed", "10:03") == []
    assert cron.at("11:01") == [f"make {name('11:00')}"]
    record = cron.table.get(C)
    assert record is not None
    assert [t.new for t in record.history] == ["Active", "Missed", "Scheduled"]


def test_allow_forbid_and_replace():
    first, second = name("10:00"), name("11:00")
    for policy, asked in (
        ("Allow", [f"make {second}"]),
        ("Forbid", []),
        ("Replace", [f"delete {first}", f"make {second}"]),
    ):
        cron = Cron(concurrency=policy)
        cron.at("10:00")
        assert cron.at("11:00") == asked
    forbid = Cron(concurrency="Forbid")
    forbid.at("10:00")
    forbid.at("11:00")
    assert forbid.ended(first, "Completed", "11:20") == [f"make {second}"]


def test_a_suspended_one_makes_nothing_and_makes_nothing_good():
    cron = Cron()
    cron.table.handle(crons.CronSuspended(cron=C, suspend=True), clock("09:40"))
    assert cron.at("10:30") == []
    assert cron.table.next_alarm() is None
    cron.table.handle(crons.CronSuspended(cron=C, suspend=False), clock("10:40"))
    assert cron.kept.take() == []
    assert cron.at("11:00") == [f"make {name('11:00')}"]


def test_old_jobs_go():
    cron = Cron("*/10 * * * *", keep_successful=2, keep_failed=0)
    times = ["09:40", "09:50", "10:00"]
    for time in times:
        assert cron.at(time) == [f"make {name(time)}"]
    assert cron.ended(name("09:40"), "Failed", "10:01") == [f"delete {name('09:40')}"]
    assert cron.ended(name("09:50"), "Completed", "10:02") == []
    assert cron.ended(name("10:00"), "Completed", "10:03") == []
    cron.at("10:10")
    assert cron.ended(name("10:10"), "Completed", "10:11") == [f"delete {name('09:50')}"]


def test_another_schedule_counts_from_now():
    cron = Cron()
    spec = msgspec.structs.replace(cron.spec, schedule="*/10 * * * *")
    cron.table.handle(crons.CronSubmitted(spec=spec), clock("09:55"))
    assert cron.kept.take() == []
    assert cron.table.next_alarm() == clock("10:00")


def test_what_is_no_cron_job():
    cron = Cron()
    with pytest.raises(ValueError, match="five fields"):
        cron.table.handle(
            crons.CronSubmitted(spec=msgspec.structs.replace(cron.spec, schedule="* *")), 0.0
        )
    empty = msgspec.structs.replace(cron.spec, name="d", job=job_spec("tasks: [{name: t}]"))
    empty = msgspec.structs.replace(empty, job=msgspec.structs.replace(empty.job, groups=()))
    with pytest.raises(JobCommandError, match="jobTemplate"):
        cron.table.handle(crons.CronSubmitted(spec=empty), 0.0)
    with pytest.raises(JobCommandError, match="no cron job"):
        cron.table.handle(crons.CronDeleted(cron="default/none"), 0.0)


def test_a_deleted_one_takes_its_running_jobs_along():
    cron = Cron()
    cron.at("10:00")
    cron.table.handle(crons.CronDeleted(cron=C), clock("10:01"))
    assert cron.kept.take() == [f"delete {name('10:00')}", "forget"]
    assert cron.ended(name("10:00"), "Failed", "10:02") == []
    assert cron.table.next_alarm() is None


def test_what_a_store_kept_is_made_good_once():
    cron = Cron()
    record = msgspec.msgpack.decode(msgspec.msgpack.encode(cron.table.get(C)), type=CronRecord)
    kept = Kept()
    table = crons.CronTable(kept)
    table.restore([record], clock("12:30"))
    assert kept.take() == [f"make {name('12:00')}"]


@settings(max_examples=examples(100))
@given(hs.floats(0, 3e8), hs.floats(0, 1e5), hs.integers(1, 5000))
def test_the_time_that_follows_is_never_here_already(since, length, every_s):
    """If the next time were not later than this one, the head would find the same time due again
    and again.
    """
    schedule = parse_schedule(f"@every {every_s}s")
    now = since + length
    following = crons.following_time(schedule, "", since, now)
    assert following is not None
    assert now < following <= now + every_s
    due = crons.latest(schedule, "", since, now)
    assert due is None or (since < due <= now and following == due + every_s)


@settings(max_examples=examples(60))
@given(
    schedule=hs.sampled_from(["* * * * *", "*/7 3 * * *", "0 0 1 * *", "@every 90s", "0 0 29 2 *"]),
    since=hs.integers(0, 3 * 10**8),
    length=hs.integers(0, 400_000),
)
def test_the_latest_time_is_the_last_of_all(schedule, since, length):
    parsed = parse_schedule(schedule)
    found = crons.latest(parsed, "", since, since + length)
    if found is None:
        following = parsed.after(since)
        assert following is None or following > since + length
    else:
        assert since < found <= since + length
        if not parsed.every_s:
            assert parsed.after(found - 1) == found
            following = parsed.after(found)
            assert following is None or following > since + length


# ---- queues --------------------------------------------------------------------------------------


class Queues:
    def __init__(self) -> None:
        self.kept = Kept()
        self.table = QueueTable(self.kept)
        for spec in ("lab", "team/lab", "crew/team", "other"):
            name, _, parent = spec.partition("/")
            self.table.create(QueueSpec(name=name, parent=parent), 0.0)

    def states(self) -> str:
        letters = {"Open": "o", "Closed": "c", "Closing": "g", "Unknown": "u"}
        return "".join(letters[q.state] for q in self.table.all()[2:])

    def play(self, script: str) -> str:
        for word in script.split():
            command, _, rest = word.partition(":")
            if command in ("open", "close"):
                getattr(self.table, command)(rest, 1.0)
            else:
                jobs = {"run": {"running": 1}, "done": {"completed": 1}}[command]
                self.table.counted(rest, jobs, 0, 2.0)
        return self.states()


@pytest.mark.parametrize(
    ("script", "states"),
    [
        ("", "oooo"),
        ("close:other", "oooc"),
        ("close:other close:other", "oooc"),
        ("run:other close:other", "ooog"),
        ("run:other close:other close:other", "ooog"),
        ("run:other close:other done:other", "oooc"),
        ("run:other close:other open:other", "oooo"),
        ("close:other open:other", "oooo"),
        ("open:other", "oooo"),
        ("done:other close:other", "oooc"),
        ("close:lab", "ccco"),
        ("run:crew close:lab", "ccgo"),
        ("close:lab open:lab", "oooo"),
        ("close:team close:lab open:lab", "occo"),
        ("close:team close:lab open:lab open:team", "oooo"),
        ("close:lab close:team open:lab", "occo"),
        ("close:lab close:team open:lab open:team", "oooo"),
    ],
)
def test_opening_and_closing(script, states):
    assert Queues().play(script) == states


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (lambda t: t.create(QueueSpec(name="lab"), 0.0), "already"),
        (lambda t: t.create(QueueSpec(name="q", parent="none"), 0.0), "no queue 'none'"),
        (lambda t: t.create(QueueSpec(name="q", weight=0), 0.0), "weight"),
        (lambda t: t.update(QueueSpec(name="none"), 0.0), "no queue 'none'"),
        (lambda t: t.update(QueueSpec(name="lab", parent="crew"), 0.0), "cycle"),
        (lambda t: t.update(QueueSpec(name="root", capability=(("cpu", 1.0),)), 0.0), "root"),
        (lambda t: t.delete("root", 0.0), "cannot be deleted"),
        (lambda t: t.delete("default", 0.0), "cannot be deleted"),
        (lambda t: t.delete("lab", 0.0), "has children"),
        (lambda t: t.delete("none", 0.0), "no queue"),
        (lambda t: t.close("root", 0.0), "root cannot be closed"),
        (lambda t: t.open("none", 0.0), "no queue"),
        (lambda t: t.require_open("lab"), "queues below it"),
        (lambda t: t.require_open("root"), "no jobs"),
        (lambda t: t.require_open("none"), "no queue"),
    ],
)
def test_a_command_that_does_not_fit(command, reason):
    queues = Queues()
    before = msgspec.msgpack.encode(queues.table.all())
    with pytest.raises(JobCommandError, match=reason):
        command(queues.table)
    assert msgspec.msgpack.encode(queues.table.all()) == before


def test_jobs_go_into_open_leaves_only():
    queues = Queues()
    queues.table.require_open("crew")
    queues.table.require_open("default")
    queues.play("close:crew")
    with pytest.raises(JobCommandError, match="Closed"):
        queues.table.require_open("crew")


def test_a_queue_below_a_closed_one():
    queues = Queues()
    queues.play("close:lab")
    with pytest.raises(JobCommandError, match="open that one first"):
        queues.table.open("team", 1.0)
    with pytest.raises(JobCommandError, match="open it before"):
        queues.table.create(QueueSpec(name="q", parent="lab"), 1.0)
    queues.table.create(QueueSpec(name="q", parent="lab", state="Closed"), 1.0)


def test_a_queue_in_use_is_not_deleted():
    queues = Queues()
    queues.table.counted("other", {"pending": 1}, 0, 1.0)
    with pytest.raises(JobCommandError, match="1 jobs are in"):
        queues.table.delete("other", 1.0)
    queues.table.counted("other", {"completed": 1}, 1, 1.0)
    with pytest.raises(JobCommandError, match="still hold"):
        queues.table.delete("other", 1.0)
    queues.table.counted("other", {}, 0, 1.0)
    queues.table.delete("other", 1.0)
    assert queues.kept.take() == ["forget"]


@pytest.mark.parametrize(("script", "state"), [("", "Open"), ("run:other close:other", "Closing")])
def test_an_update_keeps_the_state(script, state):
    queues = Queues()
    queues.play(script)
    changed = queues.table.update(QueueSpec(name="other", weight=3), 1.0)
    assert (changed.state, changed.spec.weight) == (state, 3)


def test_queues_come_back_from_a_store():
    queues = Queues()
    queues.play("run:crew close:lab")
    raw = msgspec.msgpack.encode(queues.table.all())
    table = QueueTable(Kept())
    table.restore(msgspec.msgpack.decode(raw, type=list[QueueRecord]))
    table.open("lab", 3.0)
    assert [q.state for q in table.all()] == ["Open"] * 6
