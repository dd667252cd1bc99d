"""jobscope: its summary and its details of jobs, which it takes from sacct."""

import os
import sys

from steps_of_jobs import done, over, submit

JOBSCOPE = os.path.join(os.path.dirname(sys.executable), "jobscope")


def test_jobs_are_summed_up():
    number = submit("--mem=300", command="sleep 2")
    over(number)
    assert number in done(JOBSCOPE, "-j", number)
    assert number in done(JOBSCOPE, "detail", "-j", number)
    assert number in done(JOBSCOPE, "-S", "now-1days", "--min-runtime", "0")
