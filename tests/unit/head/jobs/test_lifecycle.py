"""The life cycle of jobs, tested by scripts: every state, every action, policies, retries,
dependencies.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.head.jobs.shell import J, Shell, job_spec

from phalanx.head.jobs import events as ev
from phalanx.head.jobs.judging import gang_minimum
from phalanx.head.jobs.podgroup import podgroup_of
from phalanx.head.jobs.rows import job_description
from phalanx.manifests.reading import read_checked
from phalanx.model.ids import JobId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import KEEP_TRANSITIONS, JobCommandError, JobRecord, new_job

TWO = "tasks: [{name: a, replicas: 2}]"
THREE = "tasks: [{name: a, replicas: 2}, {name: b}]"

SCRIPTS = {
    "Pending": "",
    "Running": "run",
    "Restarting": "run do RestartJob",
    "Aborting": "run do AbortJob",
    "Aborted": "run do AbortJob gone",
    "Completing": "run do CompleteJob",
    "Terminating": "run do TerminateJob",
    "Completed": "run ok",
    "Failed": "run fail a-0 fail a-1",
    "Terminated": "run do TerminateJob gone",
}
RESTARTS = dict.fromkeys(
    ["RestartJob", "RestartTask", "RestartPod", "RestartPartition"], "Restarting"
)
ENDS = {"AbortJob": "Aborting", "CompleteJob": "Completing", "TerminateJob": "Terminating"}
EXPECTED = {
    "Pending": RESTARTS | ENDS,
    "Running": RESTARTS | ENDS,
    "Restarting": RESTARTS | ENDS,
    "Aborting": {"ResumeJob": "Restarting", "TerminateJob": "Terminating"},
    "Aborted": {"ResumeJob": "Pending", "TerminateJob": "Terminated"},
    "Completing": {},
    "Terminating": {},
    "Completed": {},
    "Failed": {},
    "Terminated": {},
}


@pytest.mark.parametrize("state", SCRIPTS)
def test_every_state_is_reached(state):
    shell = Shell(TWO).play(SCRIPTS[state])
    assert shell.job.state == state
    assert shell.job.is_finished == (state in st.FINISHED)


@pytest.mark.parametrize(("state", "action"), list(itertools.product(SCRIPTS, st.POLICY_ACTIONS)))
def test_every_action_in_every_state(state, action):
    shell = Shell(TWO).play(SCRIPTS[state])
    before = msgspec.msgpack.encode(shell.job)
    after = EXPECTED[state].get(action)
    if after is None:
        with pytest.raises(JobCommandError, match=state):
            shell.play(f"do {action}:a:0")
        assert msgspec.msgpack.encode(shell.job) == before
        return
    shell.play(f"do {action}:a:0")
    assert shell.job.state == after
    assert shell.job.retries == 0


@pytest.mark.parametrize("state", SCRIPTS)
@pytest.mark.parametrize("word", ["run", "ok", "fail a-0", "lose a-0", "gone", "strand", "at 99"])
def test_no_news_breaks_any_state(state, word):
    """If the job is finished, it also starts nothing and keeps its state."""
    shell = Shell(TWO).play(SCRIPTS[state])
    asked = len(shell.asked)
    shell.play(word)
    if state in st.FINISHED:
        assert shell.job.state == state
        assert len(shell.asked) == asked


def policies(*written: str, more: str = "") -> str:
    return f"{TWO}, policies: [{', '.join(written)}]{', ' + more if more else ''}"


LIVES = (Path(__file__).parent / "tables" / "lives.txt").read_text()
CASES = [block.splitlines() for block in LIVES.strip().split("\n\n")[1:]]


@pytest.mark.parametrize(("name", "spec", "life"), CASES, ids=[case[0] for case in CASES])
def test_a_life(name, spec, life):
    script, story = life.split(" -> ")
    assert Shell(spec.strip()).play(script).story() == story


def test_why_a_job_cannot_go_on_is_said():
    shell = Shell("tasks: [{name: x}, {name: a}, {name: b, dependsOn: {name: [a]}}]")
    assert shell.play("run x-0 ok x-0 fail a-0").job.reason == (
        "the groups that b waits for have ended without success"
    )
    more = "{name: c, dependsOn: {name: [a]}}"
    shell = Shell(
        f"tasks: [{{name: x}}, {{name: a}}, {{name: b, dependsOn: {{name: [a]}}}}, {more}]"
    )
    assert shell.play("run x-0 ok x-0 fail a-0").job.reason == (
        "the groups that b, c wait for have ended without success"
    )


# ---- retries: what costs one, and how many there are ---------------------------------------------


def test_three_retries_are_three_restarts():
    shell = Shell(policies("{event: PodFailed, action: RestartJob}"))
    for retry in range(1, 4):
        shell.play(f"run fail a-0 gone at {retry}")
        assert (shell.job.state, shell.job.retries) == (st.PENDING, retry)
    shell.play("run fail a-0")
    assert shell.job.state == st.FAILED
    assert "all 3 retries are used" in shell.job.reason
    assert shell.asked.count("a-0") == 4


def test_retries_without_a_limit_are_counted_and_never_used_up():
    shell = Shell(policies("{event: PodFailed, action: RestartJob}", more="maxRetry: -1"))
    for retry in range(1, 20):
        shell.play(f"run fail a-0 gone at {10 * retry}")
        assert (shell.job.state, shell.job.retries) == (st.PENDING, retry)


def test_no_retries_are_none():
    shell = Shell(policies("{event: PodFailed, action: RestartJob}", more="maxRetry: 0"))
    assert shell.play("run fail a-0").job.state == st.FAILED


@pytest.mark.parametrize(
    "round_of",
    [
        "run lose a-0 gone",
        "run do AbortJob gone do ResumeJob",
        "run do RestartJob gone",
        "run do RestartPod:a:1 gone",
        "run strand gone",
    ],
)
def test_eviction_suspension_and_commands_cost_no_retry(round_of):
    events = "{events: [PodEvicted, Unknown, PodFailed], action: RestartJob}"
    shell = Shell(policies(events)).play(" ".join([round_of] * 5))
    assert shell.job.retries == 0
    assert shell.play("run ok").job.state == st.COMPLETED


def test_what_fails_during_a_restart_belongs_to_it():
    """Four ranks of one gang fail together, which counts as one failure."""
    spec = "tasks: [{name: a, replicas: 4}], policies: [{event: PodFailed, action: RestartPod}]"
    shell = Shell(spec).play("run fail a-0 fail a-1")
    assert shell.job.retries == 2  # each restarted alone, and was back before the next failed
    shell = Shell(spec.replace("RestartPod", "RestartJob")).play("run fail a-0")
    shell.play("fail a-1 fail a-2 lose a-3")
    assert (shell.job.state, shell.job.retries) == (st.PENDING, 1)


def test_another_task_that_fails_meanwhile_restarts_at_no_further_cost():
    shell = Shell(f"{THREE}, maxRetry: 1, policies: [{{event: PodFailed, action: RestartTask}}]")
    shell.play("run fail a-0 fail b-0")
    assert (shell.job.state, shell.job.retries) == (st.RESTARTING, 1)
    assert shell.play("gone").asked == ["a-0", "a-1", "b-0", "a-0", "a-1", "b-0"]


def test_restarting_a_task_after_an_eviction_does_not_set_itself_off():
    shell = Shell(policies("{event: PodEvicted, action: RestartTask}")).play(
        "run lose a-0 lose a-1"
    )
    assert [t.new for t in shell.job.history].count(st.RESTARTING) == 1
    assert shell.play("run ok").job.state == st.COMPLETED


# ---- what a restart touches ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "ended"),
    [
        ("RestartJob", ["a-0", "a-1", "b-0"]),
        ("RestartTask:a", ["a-0", "a-1"]),
        ("RestartPod:a:1", ["a-1"]),
    ],
)
def test_a_restart_ends_what_it_is_about(command, ended):
    """Only a restart of the whole job also cancels its delayed actions."""
    shell = Shell(THREE).play(f"run do {command}")
    assert shell.job.version == int(command == "RestartJob")
    assert shell.ended == ended
    shell.asked.clear()
    assert shell.play("gone").asked == ended


def test_a_restart_of_a_partition():
    parts = "partitionPolicy: {totalPartitions: 2, partitionSize: 2}"
    event = "policies: [{event: PodFailed, action: RestartPartition}]"
    shell = Shell(f"tasks: [{{name: a, replicas: 4, {parts}, {event}}}]").play("run fail a-3")
    assert shell.ended == ["a-2"]
    shell.asked.clear()
    assert shell.play("gone").asked == ["a-2", "a-3"]
    assert shell.of("a-3").attempt == 2


def test_a_restart_of_the_job_does_all_again_and_a_resume_only_what_is_left():
    shell = Shell(TWO).play("run ok a-0 do RestartJob gone")
    assert shell.asked == ["a-0", "a-1", "a-0", "a-1"]
    shell = Shell(TWO).play("run ok a-0 do AbortJob gone do ResumeJob")
    assert shell.asked == ["a-0", "a-1", "a-1"]
    shell = Shell(policies("{event: PodFailed, action: AbortJob}")).play("run fail a-0 gone")
    assert shell.play("do ResumeJob").asked == ["a-0", "a-1", "a-0", "a-1"]


def test_a_command_for_nobody_is_refused():
    with pytest.raises(JobCommandError, match="no member z"):
        Shell(TWO).play("run do RestartTask:z")
    with pytest.raises(JobCommandError, match="there is no job"):
        Shell(TWO).handle(ev.Deleted(job=JobId("default/none")))


def test_old_news_changes_nothing():
    shell = Shell(TWO).play("run lose a-0 run")
    before = msgspec.msgpack.encode(shell.job)
    old: dict[str, Any] = {"job": J, "group": "a", "index": 0, "attempt": 1}
    shell.handle(ev.MemberExited(**old, exit_code=1))
    shell.handle(ev.MemberLost(**old))
    shell.handle(ev.MemberRan(**(old | {"index": 9})))
    assert msgspec.msgpack.encode(shell.job) == before


# ---- processes that are started again in place ---------------------------------------------------

IN_PLACE = (
    "tasks: [{name: a, replicas: 2, maxRetry: 2, template: {spec: {restartPolicy: OnFailure}}}]"
)


def test_failures_are_first_tried_again_in_place():
    shell = Shell(f"{IN_PLACE}, policies: [{{event: TaskFailed, action: TerminateJob}}]").play(
        "run"
    )
    shell.play("fail a-0 fail a-1")
    assert shell.restarted == ["a-0", "a-1"]
    assert (shell.job.state, shell.of("a-0").attempt) == (st.RUNNING, 2)
    assert shell.play("fail a-0").job.state == st.TERMINATING


def test_a_whole_restart_gives_them_their_tries_back():
    shell = Shell(f"{IN_PLACE}, policies: [{{event: PodFailed, action: RestartJob}}]")
    shell.play("run fail a-0 fail a-0 fail a-0 gone run fail a-0")
    assert shell.restarted == ["a-0", "a-0", "a-0"]
    assert shell.job.retries == 1


# ---- dependencies --------------------------------------------------------------------------------


def test_a_task_is_asked_for_when_those_before_it_have_their_minimum():
    spec = """tasks: [{name: a, replicas: 2, minAvailable: 1}, {name: b},
      {name: all, dependsOn: {name: [a, b]}},
      {name: any, dependsOn: {name: [a, b], iteration: any}}]"""
    shell = Shell(spec)
    assert shell.asked == ["a-0", "a-1", "b-0"]
    assert shell.play("run a-1").asked[3:] == ["any-0"]
    assert shell.play("run b-0").asked[4:] == ["all-0"]


def test_who_waited_for_others_counts_in_the_gang_only_while_they_are_there():
    """If they counted always, the gang could be too large for a queue that could hold each part by
    itself.
    """
    shell = Shell("tasks: [{name: a, replicas: 2}, {name: b, replicas: 3, dependsOn: {name: [a]}}]")
    assert gang_minimum(shell.job) == 2
    shell.play("run a-0 run a-1")
    assert gang_minimum(shell.job) == 5
    shell.play("lose a-0 lose a-1")
    assert gang_minimum(shell.job) == 2
    assert podgroup_of(shell.job).min_task_member == (("a", 2),)
    shell.play("run a-0 run a-1 run b-0 lose a-0")
    assert gang_minimum(shell.job) == 5, "part of it runs"


def test_who_waits_for_others_again_does_not_keep_them_from_starting():
    shell = Shell("tasks: [{name: a, replicas: 2}, {name: b, replicas: 2, dependsOn: {name: [a]}}]")
    shell.play("run ok a-0 run ok b-1 lose a-1 lose b-0")
    assert [m.state for m in shell.job.members] == [
        st.SUCCEEDED, st.PENDING, st.WAITING, st.SUCCEEDED,
    ]  # fmt: skip
    asked = podgroup_of(shell.job)
    assert (asked.min_member, asked.min_task_member) == (1, (("a", 1),))
    shell.play("run a-1")
    asked = podgroup_of(shell.job)
    assert (asked.min_member, asked.min_task_member) == (2, (("a", 1), ("b", 1)))
    assert shell.play("run ok").job.state == st.COMPLETED


# ---- size, end, memory ---------------------------------------------------------------------------


def resized(shell: Shell, replicas: int) -> Shell:
    spec = job_spec(f"tasks: [{{name: a, replicas: {replicas}}}]")
    shell.handle(ev.Resized(job=J, spec=spec))
    return shell


def test_a_job_grows_and_shrinks():
    shell = resized(Shell(TWO).play("run"), 4)
    assert shell.asked == ["a-0", "a-1", "a-2", "a-3"]
    assert shell.job.state == st.PENDING
    resized(shell.play("run"), 1)
    assert shell.ended == ["a-1", "a-2", "a-3"]
    shell.play("gone")
    assert [m.name for m in shell.job.members] == ["a-0"]
    assert shell.play("ok").job.state == st.COMPLETED


def test_a_job_that_grows_again_before_its_surplus_has_gone():
    shell = resized(resized(Shell(TWO).play("run"), 1), 2).play("gone")
    assert shell.of("a-1").state == st.PENDING
    assert shell.play("run ok").job.state == st.COMPLETED


def test_a_finished_job_is_not_resized():
    with pytest.raises(JobCommandError, match="Completed"):
        resized(Shell(TWO).play("run ok"), 3)


def test_a_finished_job_is_forgotten_after_its_time():
    shell = Shell(f"{TWO}, ttlSecondsAfterFinished: 60").play("run at 10 ok at 69")
    assert shell.forgotten == []
    assert shell.table.due(69.9, 69.9) is None
    shell.play("at 70")
    assert shell.forgotten == [J]
    assert shell.table.all() == []


def test_a_finished_job_is_not_forgotten_while_a_member_is_ending():
    shell = Shell(f"{TWO}, minSuccess: 1, ttlSecondsAfterFinished: 0").play("run ok a-0")
    assert shell.forgotten == []
    shell.play("gone")
    assert shell.forgotten == [J]


def test_without_a_time_of_its_own_it_is_kept_for_thirty_days():
    assert Shell(TWO).play("run ok at 2000000").job.state == st.COMPLETED
    assert Shell(TWO).play("run ok at 9999999").forgotten == [J]


@pytest.mark.parametrize(
    "script", ["", "run", "run do AbortJob gone", "run do RestartJob", "run ok"]
)
def test_a_deleted_job_is_ended_and_forgotten(script):
    shell = Shell(TWO).play(script).play("delete")
    if shell.table.get(J) is not None:
        shell.play("gone")
    assert shell.forgotten == [J]


def test_a_name_is_taken_while_its_job_is_known():
    shell = Shell(TWO)
    with pytest.raises(JobCommandError, match="already"):
        shell.handle(ev.Submitted(spec=job_spec(TWO)))
    shell.play("delete gone")
    shell.handle(ev.Submitted(spec=job_spec(TWO)))


def test_history_is_bounded():
    shell = Shell(TWO)
    for _ in range(KEEP_TRANSITIONS):
        shell.play("run lose a-0")
    assert len(shell.job.history) == KEEP_TRANSITIONS


@pytest.mark.parametrize("state", SCRIPTS)
def test_a_job_goes_on_after_a_restart_of_the_store(state):
    """At any moment the stored row of a job is complete: a table that is read from the store
    continues in the same way.
    """
    spec = policies("{event: PodFailed, action: RestartJob, timeout: 10s}")
    first = Shell(spec).play(SCRIPTS[state])
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(first.job), type=JobRecord)
    second = Shell(spec)
    second.asked.clear()
    second.table = type(second.table)(second)
    second.table.restore([kept], 0.0, 0.0)
    assert second.asked == (["a-0", "a-1"] if state == "Pending" else [])
    for shell in (first, second):
        shell.play("gone run at 50 ok")
    assert msgspec.to_builtins(second.job) == msgspec.to_builtins(first.job)


EXAMPLES = [
    manifest.spec
    for file in sorted((Path(__file__).parents[4] / "examples" / "jobs").glob("*.yaml"))
    for manifest in read_checked(file.read_text())[0]
    if manifest.kind == "Job"
]


@pytest.mark.parametrize("spec", EXAMPLES, ids=lambda s: s.name)
def test_the_examples_complete(spec):
    shell = Shell(msgspec.structs.replace(spec, name="j"))
    for _ in range(4):
        if not shell.job.is_finished:
            shell.play("run ok gone")
    assert shell.job.state == st.COMPLETED


def test_counts_add_up_from_the_start():
    job = new_job(job_spec(THREE), 0.0)
    assert job.count(st.WAITING) == 3
    assert job.count(st.WAITING, group="b") == 1


def test_a_description_names_the_command_of_each_role():
    shell, requests = '{command: [sh, -c, "echo $$HOME"]}', "{requests: {cpu: 2}}"
    train = f'{{command: [train], args: ["--fast"], resources: {requests}}}'
    roles = [
        f"{{name: {name}, replicas: {count}, template: {{spec: {{containers: [{one}]}}}}}}"
        for name, count, one in (("lead", 1, shell), ("work", 3, train))
    ]
    job = new_job(job_spec(f"tasks: [{', '.join(roles)}]"), 1.0)
    lead, work = job_description(job, 0, 2.0, None, {}).roles
    assert (lead.name, lead.replicas, lead.command) == ("lead", 1, "sh -c 'echo $HOME'")
    assert (work.name, work.replicas, work.command) == ("work", 3, "train --fast")
    assert work.needs["CPU"] == 2
