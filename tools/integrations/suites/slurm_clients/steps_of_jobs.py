"""Helpers that the suites of several Slurm clients share: they submit jobs and wait for them
without the client.
"""

import re
import subprocess
import time

LIMIT_S = 240
"""Seconds to wait for a job that has room. The limit is long because machines are shared and slow.
"""


def until(check):
    """Call `check` until it returns a true value, and return that value. Fails after LIMIT_S
    seconds.
    """
    end = time.monotonic() + LIMIT_S
    while not (found := check()):
        assert time.monotonic() < end, f"not within {LIMIT_S} s"
        time.sleep(0.5)
    return found


def done(*command):
    """Run a command, and return its output. If the command fails, this fails with the command's
    whole output.
    """
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def submit(*options, command="true"):
    """Submit a job with `sbatch`, not with the client, and return the job's number."""
    return done("sbatch", "--parsable", *options, "--wrap", command).strip()


def state_of(number):
    """Return the state of a job, as sacct prints it."""
    lines = done("sacct", "-nXP", "-j", str(number), "-o", "State").splitlines()
    return lines[0] if lines else ""


def over(number):
    """Wait until a job has ended, and return its state."""
    over = re.compile("COMPLETED|FAILED|CANCELLED|TIMEOUT")
    return until(lambda: over.match(state_of(number))).group()
