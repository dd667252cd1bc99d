"""Events of jobs are counted once, by queue."""

from __future__ import annotations

import pytest
from tests.unit.head.jobs.shell import Shell

ONE = (
    "queue: lab, minAvailable: 1, tasks: [{name: a, replicas: 1, template: "
    "{spec: {containers: [{name: a, command: [x]}]}}}]"
)
RETRIED = ONE.replace(
    "queue: lab,", "queue: lab, maxRetry: 1, policies: [{event: PodFailed, action: RestartJob}],"
)


def counted(shell: Shell) -> dict[str, dict[tuple[str, ...], float]]:
    return {
        name.removeprefix("phalanx_"): {one.labels: one.value for one in family.samples.values()}
        for name, family in shell.meter.families.items()
    }


def test_a_job_that_runs_and_ends() -> None:
    shell = Shell(ONE)
    shell.play("at 30 run at 90 ok")
    assert counted(shell) == {
        "jobs_submitted_total": {("lab",): 1},
        "job_wait_seconds": {("lab",): 30},
        "jobs_finished_total": {("lab", "completed"): 1},
        "job_run_seconds": {("lab",): 60},
    }


def test_a_retry_is_one_more_start_and_no_other_wait() -> None:
    shell = Shell(RETRIED)
    shell.play("at 5 run fail a-0 gone at 10 run at 12 fail a-0")
    found = counted(shell)
    assert found["jobs_retried_total"] == {("lab",): 1}
    assert found["jobs_finished_total"] == {("lab", "failed"): 1}
    assert found["job_wait_seconds"] == {("lab",): 5}


@pytest.mark.parametrize("script", ["do TerminateJob", "delete"])
def test_what_never_ran_has_a_result_and_no_times(script: str) -> None:
    shell = Shell(ONE)
    shell.play(script)
    if shell.table.all():
        shell.play("gone")
    found = counted(shell)
    assert found["jobs_finished_total"] == {("lab", "terminated"): 1}
    assert "job_run_seconds" not in found
    assert "job_wait_seconds" not in found


def test_a_suspended_job_has_not_ended() -> None:
    shell = Shell(ONE)
    shell.play("run do AbortJob gone")
    assert "jobs_finished_total" not in counted(shell)
