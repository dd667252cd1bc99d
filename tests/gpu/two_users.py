"""Two users of one machine share a GPU: a part of `measure_shares`, and a program of its own.

    python -m tests.gpu.two_users [SECONDS] [--rehearse]

Jobs run as their submitters here, so only root can start it. It makes a machine with two accounts
of its own, which no other process sees, and starts a node with the first GPU there. Each account
runs small steps for SECONDS (20) on half of the GPU, both at once: by time, and by MPS. It prints
the steps per second of each account, or how its job ended and why. Then one account takes 4 GiB
although it asked for 1 GiB: the printed lines say how its job ended, and that the job of the other
account went on. With `--rehearse` nothing needs a GPU, as in `measure_shares`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from tests.gpu.fakes import DAEMON, declare_card
from tests.system.people.system_machine import ROOT, SystemMachine

from phalanx.runtime.launch.program import trusted_end

USERS = ("ana", "bo")
LONGEST_S = 180.0
"""How long a job may take beyond its own time."""
_ENDED = ("Completed", "Failed", "Aborted", "Terminated")


def two_users(seconds: float, rehearses: bool) -> None:
    """Print the figures. Raises PermissionError where jobs cannot run as their submitters."""
    if os.getuid() != 0:
        raise PermissionError("only root can have jobs run as their submitters")
    for path in (sys.executable, sys.base_prefix, ROOT):
        trusted_end(path)
    machine = SystemMachine()
    path = os.environ["PATH"]
    try:
        options = ["--num-gpus", "1"]
        if rehearses:
            folder = Path(machine.directory)
            options += ["--devices", str(declare_card(folder))]
            os.environ["PATH"] = f"{_daemon(folder)}:{path}"
        machine.start(*options)
        for mode in ("time", "mps"):
            _beside(machine, mode, seconds, rehearses)
        _greedy(machine, seconds, rehearses)
    finally:
        os.environ["PATH"] = path
        machine.end()


def _beside(machine: SystemMachine, mode: str, seconds: float, rehearses: bool) -> None:
    """Both accounts run steps on half of the GPU."""
    steps = _steps(seconds, rehearses)
    for user in USERS:
        _begin(machine, user, f"{user}-{mode}", steps, "--gpus", "0.5", "--gpu-share", mode)
    states = {user: _end(machine, f"{user}-{mode}", seconds + LONGEST_S) for user in USERS}
    counts = {user: _counts(_log(machine, user, f"{user}-{mode}")) for user in USERS}
    together = set(counts["ana"]) & set(counts["bo"])
    for user, (state, why) in states.items():
        rate = sum(counts[user][at] for at in together) / max(len(together), 1)
        done = f"{rate:,.0f} steps/s beside the other" if together else f"{state}: {why}"
        print(f"two users by {mode}: {user}: {done}", flush=True)


def _greedy(machine: SystemMachine, seconds: float, rehearses: bool) -> None:
    """One account takes more memory than it asked for, beside the other."""
    _begin(machine, "bo", "beside", _steps(seconds, rehearses), "--gpus", "0.5")
    takes = [sys.executable, str(Path(__file__).with_name("program.py")), "4096", "600"]
    begun = time.monotonic()
    _begin(machine, "ana", "greedy", takes, "--gpu-memory", "1GiB")
    state, why = _end(machine, "greedy", LONGEST_S)
    print(f"two users, memory: ana: {state} after {time.monotonic() - begun:.1f} s: {why}")
    state, why = _end(machine, "beside", seconds + LONGEST_S)
    print(f"two users, memory: bo: {state} {why}", flush=True)


def _steps(seconds: float, rehearses: bool) -> list[str]:
    more = ["--cpu"] if rehearses else []
    return [sys.executable, "-m", "tests.gpu.small_steps", str(seconds), *more]


def _begin(machine: SystemMachine, user: str, name: str, command: list[str], *options: str) -> None:
    where = ["env", f"PYTHONPATH={ROOT}"]
    machine.said(user, "run", "-d", "--name", name, *options, "--", *where, *command)


def _end(machine: SystemMachine, name: str, within_s: float) -> tuple[str, str]:
    """Wait for the end of a job, or for so long. Returns its state and the reason."""
    end = time.monotonic() + within_s
    while True:
        row = machine.job(name)
        if row["state"] in _ENDED or time.monotonic() > end:
            return row["state"], json.dumps(row.get("reason", ""))
        time.sleep(0.5)


def _log(machine: SystemMachine, user: str, name: str) -> str:
    """Return what a job has printed; nothing if it has not ended, because its log would be
    followed.
    """
    return machine.said(user, "logs", name) if machine.job(name)["state"] in _ENDED else ""


def _counts(log: str) -> dict[int, int]:
    """Return the steps of a job in each whole second."""
    lines = [line.split() for line in log.splitlines() if line[:1].isdigit()]
    return {int(second): int(count) for second, count in lines[1:]}  # the first is not whole


def _daemon(folder: Path) -> Path:
    """Write the program that stands in for the daemon of MPS. Returns its directory."""
    programs = folder / "programs"
    programs.mkdir(mode=0o755)
    daemon = programs / "nvidia-cuda-mps-control"
    daemon.write_text(DAEMON)
    daemon.chmod(0o755)
    return programs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=20.0)
    parser.add_argument("--rehearse", action="store_true", help="without a GPU")
    options = parser.parse_args()
    two_users(options.seconds, options.rehearse)
