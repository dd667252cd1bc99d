"""What `phalanx run` in the foreground says when its job is preempted."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.dashboard.world import description, job

from phalanx.cli import job_output
from phalanx.cli.job_output import JobOutput
from phalanx.model.jobs import states as st


@pytest.mark.parametrize("is_quiet", [False, True])
def test_a_preemption_is_said_once(monkeypatch, capsys, is_quiet):
    shown = JobOutput(None, "default/low", None, is_run=True, is_quiet=is_quiet)
    for preempted, state in ((0, st.RUNNING), (1, st.PENDING), (1, st.RUNNING), (2, st.FAILED)):
        found = msgspec.structs.replace(
            description(job("low")), state=state, preempted=preempted, members=[]
        )
        monkeypatch.setattr(job_output, "ask", lambda *_, found=found: found)
        shown.go_on()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == (0 if is_quiet else 1), "a job that has ended does not start again"
    assert all("job low was preempted" in line for line in said)
