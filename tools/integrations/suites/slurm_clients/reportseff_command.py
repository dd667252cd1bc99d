"""reportseff: the efficiency of jobs, which are selected by number and by state."""

import os
import sys

from steps_of_jobs import done, over, submit

REPORT = os.path.join(os.path.dirname(sys.executable), "reportseff")


def test_jobs_are_listed_with_their_use():
    number = submit("--mem=300", "-t", "10", command="sleep 2")
    failed = submit(command="exit 3")
    assert (over(number), over(failed)) == ("COMPLETED", "FAILED")
    lines = done(REPORT, "--no-color", number, failed).splitlines()
    assert lines[0].split() == ["JobID", "State", "Elapsed", "TimeEff", "CPUEff", "MemEff"]
    assert [line.split()[:2] for line in lines[1:]] == [[number, "COMPLETED"], [failed, "FAILED"]]
    chosen = done(REPORT, "--no-color", "--since", "d=1", "-s", "F", "--user", "root")
    assert failed in chosen and number not in chosen.split()
    assert "default" in done(REPORT, "--format", "+Partition,AdminComment", number)
