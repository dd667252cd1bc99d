"""GridTK's command: submit, list, report, resubmit, stop and delete."""

import os
import sys
from pathlib import Path

from steps_of_jobs import done, until

GRIDTK = os.path.join(os.path.dirname(sys.executable), "gridtk")


def test_a_job_runs_and_is_reported():
    Path("job.sh").write_text("#!/bin/sh\necho here\n")
    done(GRIDTK, "submit", "--job-name=first", "job.sh")
    until(lambda: "COMPLETED (0" in done(GRIDTK, "list"))
    assert "here" in done(GRIDTK, "report")
    done(GRIDTK, "delete")
    assert "first" not in done(GRIDTK, "list")


def test_a_failure_runs_again_and_an_end_is_seen():
    Path("job.sh").write_text("#!/bin/sh\ntest -e mark && sleep 600\ntouch mark\nexit 3\n")
    done(GRIDTK, "submit", "--job-name=second", "job.sh")
    until(lambda: "FAILED (3" in done(GRIDTK, "list"))
    done(GRIDTK, "resubmit")
    until(lambda: "RUNNING" in done(GRIDTK, "list"))
    done(GRIDTK, "stop")
    until(lambda: "CANCELLED" in done(GRIDTK, "list"))
