"""Measures a person's work beside hostile work of another person, on a machine of the test's own.

    python -m tests.system.people.neighbours [--rounds 3] [KIND ...]

Needs root. bo's job runs small tasks and small commands one after another, first alone and then
while ana's job is hostile, in turn. Each holds one of two CPUs. For each kind of hostile work the
program prints the medians and the 99th percentiles of bo's times, their ratios, and how ana's job
ended. It first prints the limits that the kernel holds on this machine (`phalanx status`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from functools import partial

from tests.polling import eventually
from tests.system.people.system_machine import (
    ACCOUNTS,
    NODE_USER,
    SystemMachine,
    need_root,
    processes_of,
)

PROBE = """
import json, os, subprocess, sys, time
import phalanx
phalanx.init()
@phalanx.remote
def f(): return 1
phalanx.get([f.remote() for _ in range(50)])
def times(call, count):
    found = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return found
print(json.dumps({
    "task": times(lambda: phalanx.get(f.remote()), 500),
    "command": times(lambda: subprocess.run(["/bin/true"]), 200),
}))
"""
SPIN = "import os\nfor _ in range(6): os.fork()\nwhile True: pass"
HOG = "held = []\nwhile True: held.append(b'x' * (16 << 20))"
STAYS = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        while True: pass
while True: pass
"""
BOMB = "bomb() { bomb | bomb & }; bomb; sleep 1000"
KINDS = {
    "64 busy processes": (("python3", "-c", SPIN), ()),
    "fork bomb": (("sh", "-c", BOMB), ()),
    "memory hog": (("python3", "-c", HOG), ("--memory", "256Mi", "--retries", "0")),
    "daemons that ignore SIGTERM": (("python3", "-c", STAYS), ("--grace", "2s")),
}


def probe(machine: SystemMachine, name: str) -> dict[str, list[float]]:
    """Run bo's job. Returns its times in seconds, by kind."""
    words = ("--name", name, "--cpus", "1", "--", "sh", "-c", 'exec $PHALANX_PYTHON -c "$0"')
    said = machine.said("bo", "run", *words, PROBE)
    found: dict[str, list[float]] = json.loads(said.splitlines()[-1])
    return found


def p99(times: list[float]) -> float:
    """Return the 99th percentile."""
    return statistics.quantiles(times, n=100)[98]


def is_over(machine: SystemMachine, name: str) -> bool:
    """Whether ana's job has ended."""
    return machine.job(name)["state"] not in ("Running", "Terminating", "Aborting")


def beside(machine: SystemMachine, kind: str, rounds: int) -> None:
    """Measure bo's work alone and beside one kind of hostile work; print both."""
    command, options = KINDS[kind]
    alone: dict[str, list[float]] = {"task": [], "command": []}
    with_it: dict[str, list[float]] = {"task": [], "command": []}
    slug = kind.replace(" ", "-").lower()[:20]
    ended = ""
    for number in range(rounds):
        for name, times in probe(machine, f"alone-{slug}-{number}").items():
            alone[name] += times
        hostile = f"{slug}-{number}"
        given = ("--name", hostile, "--cpus", "1", "-d", *options)
        machine.said("ana", "run", *given, "--", *command)
        eventually(lambda: processes_of(ACCOUNTS["ana"]), "ana's processes")
        time.sleep(1.0)  # the hostile work grows
        for name, times in probe(machine, f"beside-{slug}-{number}").items():
            with_it[name] += times
        began = time.monotonic()
        machine.phalanx("ana", "cancel", hostile)
        eventually(partial(is_over, machine, hostile), "the end of ana's job")
        eventually(lambda: not commands_of_ana(), "the end of ana's processes")
        row = machine.job(hostile)
        ended = f"{row['state']}: {row.get('reason') or row.get('why') or ''}"
        ended += f" (gone {time.monotonic() - began:.1f} s after the cancel)"
    print(f"{kind}: ana's last job {ended}")
    for name, one in alone.items():
        two = with_it[name]
        print(
            f"  {name}: median {statistics.median(one) * 1e3:.2f} -> "
            f"{statistics.median(two) * 1e3:.2f} ms, p99 {p99(one) * 1e3:.2f} -> "
            f"{p99(two) * 1e3:.2f} ms: {p99(two) / p99(one):.2f} times (target 2)",
            flush=True,
        )


def commands_of_ana() -> list[int]:
    """Return ana's processes, without those of Phalanx."""
    found = []
    for pid in processes_of(ACCOUNTS["ana"]):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if b"phalanx" not in file.read():
                    found.append(pid)
        except OSError:
            continue
    return found


def main() -> None:
    """Measure the chosen kinds, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []])
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    need_root()
    machine = SystemMachine()
    try:
        machine.start("--num-cpus", "2")
        print(machine.said(NODE_USER, "status"))
        for kind in given.kinds or KINDS:
            beside(machine, kind, given.rounds)
    finally:
        machine.end()


if __name__ == "__main__":
    main()
