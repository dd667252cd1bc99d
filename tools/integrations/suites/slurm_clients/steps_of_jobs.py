"""Steps that suites of Slurm's clients share beside calling their client."""

import re
import subprocess
import time

LIMIT_S = 240
"""For what a job does that has room: machines are shared, and slow."""


def until(check):
    """What `check` returns, once that is true. Fails after a limit."""
    end = time.monotonic() + LIMIT_S
    while not (found := check()):
        assert time.monotonic() < end, f"not within {LIMIT_S} s"
        time.sleep(0.5)
    return found


def done(*command):
    """Return the output of a command. Fails, with all that was printed, when the command does."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def submit(*options, command="true"):
    """The number of a job that was submitted with `sbatch`, not by the client."""
    return done("sbatch", "--parsable", *options, "--wrap", command).strip()


def state_of(number):
    """In the words of sacct."""
    lines = done("sacct", "-nXP", "-j", str(number), "-o", "State").splitlines()
    return lines[0] if lines else ""


def over(number):
    """The state of a job that has ended, after a wait for its end."""
    over = re.compile("COMPLETED|FAILED|CANCELLED|TIMEOUT")
    return until(lambda: over.match(state_of(number))).group()
