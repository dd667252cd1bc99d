"""Two users of one machine share a GPU: a part of `measure_shares`, and a program of its own.

    python -m tests.gpu.two_users [SECONDS] [--rehearse]

Jobs run as their submitters here, so only root can start it. It makes a machine with two accounts
of its own, which no other process sees, and starts a node with the first GPU there. Each account
runs small steps for SECONDS (20) on half of the GPU, both at once, by time. It prints the steps per
second of each account, or how its job ended and why. Then one account takes 4 GiB although it asked
for 1 GiB: the printed lines say how its job ended, and that the job of the other account went on.
The last line says how a job that asks for MPS is refused, because an MPS daemon serves one account.
With `--rehearse` nothing needs a GPU, as in `measure_shares`. The exit code is 1, and the last
lines name what went wrong, if anything ended in another way.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from tests.gpu.fakes import DAEMON, declare_card, idle_command, pid_in
from tests.system.people.system_machine import NODE_USER, ROOT, SystemMachine

from phalanx.runtime.launch.program import trusted_end

USERS = ("ana", "bo")
LONGEST_S = 180.0
"""How long a job may take beyond its own time."""
TAKEN = 4 * 2**30
"""The bytes that the greedy job takes."""
_ENDED = ("Completed", "Failed", "Aborted", "Terminated")


def two_users(seconds: float, rehearses: bool) -> None:
    """Print the figures. Raises PermissionError where jobs cannot run as their submitters, and
    RuntimeError that names the parts that ended in another way than they should.
    """
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
        wrong = [
            *_beside(machine, seconds, rehearses),
            *_greedy(machine, seconds, rehearses),
            *_by_mps(machine),
        ]
        if wrong:
            raise RuntimeError("; ".join(wrong))
    finally:
        os.environ["PATH"] = path
        machine.end()


def _beside(machine: SystemMachine, seconds: float, rehearses: bool) -> list[str]:
    """Run steps of both accounts at the same time, each on half of the GPU. Returns what went
    wrong.
    """
    steps = _steps(seconds, rehearses)
    for user in USERS:
        _begin(machine, user, f"{user}-steps", steps, "--gpus", "0.5", "--hold")
    # Both begin at once, even on a machine where a command takes longer than the steps.
    machine.said(NODE_USER, "release", *(f"{user}-steps" for user in USERS))
    states = {user: _end(machine, f"{user}-steps", seconds + LONGEST_S) for user in USERS}
    counts = {user: _counts(_log(machine, user, f"{user}-steps")) for user in USERS}
    together = set(counts["ana"]) & set(counts["bo"])
    wrong = []
    for user, (state, why) in states.items():
        rate = sum(counts[user][at] for at in together) / max(len(together), 1)
        done = f"{rate:,.0f} steps/s beside the other"
        if state != "Completed" or not together:
            done = f"{state}: {why}; {len(counts[user])} seconds, {len(together)} of both"
            wrong.append(f"the steps of {user} by time: {done}")
        print(f"two users by time: {user}: {done}", flush=True)
    return wrong


def _greedy(machine: SystemMachine, seconds: float, rehearses: bool) -> list[str]:
    """Let one account take more memory than it asked for, while the other one runs steps. Returns
    what went wrong.
    """
    _begin(machine, "bo", "beside", _steps(seconds, rehearses), "--gpus", "0.5")
    said = Path(machine.home("ana")) / "pid"
    takes = [sys.executable, str(Path(__file__).with_name("program.py")), str(TAKEN >> 20), "600"]
    if rehearses:
        takes = idle_command(said)
    begun = time.monotonic()
    _begin(machine, "ana", "greedy", takes, "--gpu-memory", "1GiB")
    if rehearses:
        declare_card(Path(machine.directory), (pid_in(said), TAKEN))
    state, why = _end(machine, "greedy", LONGEST_S)
    print(f"two users, memory: ana: {state} after {time.monotonic() - begun:.1f} s: {why}")
    wrong = [] if "out of GPU memory" in why else [f"the greedy job of ana: {state}: {why}"]
    state, why = _end(machine, "beside", seconds + LONGEST_S)
    print(f"two users, memory: bo: {state} {why}", flush=True)
    return wrong if state == "Completed" else [*wrong, f"the job beside it: {state}: {why}"]


def _by_mps(machine: SystemMachine) -> list[str]:
    """Submit a job that asks for MPS, which must be refused. Returns what went wrong."""
    done = machine.phalanx("ana", "run", "--gpus", "0.5", "--gpu-share", "mps", "--", "true")
    print(f"two users by MPS: {done.stderr.strip()}", flush=True)
    return [] if done.returncode and "by MPS" in done.stderr else ["a job by MPS was not refused"]


def _steps(seconds: float, rehearses: bool) -> list[str]:
    more = ["--cpu"] if rehearses else []
    return [sys.executable, "-m", "tests.gpu.small_steps", str(seconds), *more]


def _begin(machine: SystemMachine, user: str, name: str, command: list[str], *options: str) -> None:
    where = ["env", f"PYTHONPATH={ROOT}"]
    machine.said(user, "run", "-d", "--name", name, *options, "--", *where, *command)


def _end(machine: SystemMachine, name: str, within_s: float) -> tuple[str, str]:
    """Wait at most this long for the end of a job. Returns its state and the reason."""
    end = time.monotonic() + within_s
    while True:
        row = machine.job(name)
        if row["state"] in _ENDED or time.monotonic() > end:
            return row["state"], json.dumps(row.get("reason", ""))
        time.sleep(0.5)


def _log(machine: SystemMachine, user: str, name: str) -> str:
    """Return what a job has printed. Return nothing if the job has not ended, because reading its
    log would then wait.
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
    try:
        two_users(options.seconds, options.rehearse)
    except RuntimeError as error:
        sys.exit(f"two users: {error}")
