"""Says why the job of an `srun` has ended before its tasks did."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from phalanx.adapters.slurm.commands.numbers import slurm_id
from phalanx.adapters.slurm.commands.usage import address
from phalanx.adapters.slurm.states import OUT_OF_MEMORY, state_of
from phalanx.cli.allocation import LOOK_EVERY_S
from phalanx.cli.reach import ask
from phalanx.cli.table import say
from phalanx.cli.times import clock
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import JobDescription
from phalanx.protocol.requests.jobs import GetJob

KILLED = 128 + signal.SIGKILL
"""The exit code of a task that was killed."""
_KNOWN_S = 10.0
"""The most seconds that a job takes to end once its tasks have ended."""


def ended_job(job: JobDescription, is_lost: bool) -> JobDescription:
    """Return the job as it is once it has ended; a job that goes on, as it is now. `is_lost`:
    whether the connection to a task was lost; then the head soon knows why the job has ended.
    """
    until = time.monotonic() + _KNOWN_S
    while True:
        found = ask(address(), GetJob(f"{job.namespace}/{job.name}"))
        is_ending = is_lost or found.state != st.RUNNING
        if found.state in st.SETTLED or not is_ending or time.monotonic() >= until:
            return found
        time.sleep(LOOK_EVERY_S)


def tell_why(job: JobDescription, hosts: Sequence[str]) -> bool:
    """Print Slurm's line about a step whose job has ended at its time limit, or because it used too
    much memory. Return whether memory was the reason.
    """
    host, step = hosts[0], f"{slurm_id(job.name)}.0"
    if job.state == st.TIMED_OUT:
        at = clock(job.finished)
        text = f"*** STEP {step} ON {host} CANCELLED AT {at} DUE TO TIME LIMIT ***"
        say(f"slurmstepd: error: {text}", err=True)
    is_oom = state_of(job.state, job.reason) == OUT_OF_MEMORY
    if is_oom:
        text = f"Detected 1 oom_kill event in StepId={step}. Some of the step tasks have been OOM"
        say(f"slurmstepd: error: {text} Killed.", err=True)
    return is_oom
