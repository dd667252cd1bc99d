"""A real head whose clock is set ahead and back repeatedly, and checks of the result.

    python -m tests.system.chaos.clock_steps ROUNDS SEED DIRECTORY

Meanwhile jobs with limits and deadlines run and end, and a cron job submits others. No step of the
clock may end a job sooner or later, bill a job for the time that the clock skipped, or list a job
twice. Prints counts of what happened, as JSON.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

from tests.polling import eventually
from tests.system.chaos.head_restarts import until
from tests.system.cli.conftest import Machine
from tests.system.cli.test_clock_steps import CRON, Clock, made

from phalanx.protocol.requests.shares import GetShares

STEPS_S = (3.0, 90.0, 5400.0, 400 * 86_400.0)
LONG = "27h"
"""A limit longer than this program runs: only a step of the clock could reach it."""


class Trial:
    """One head with its node, a job that runs through all rounds, and a cron job."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._rng = random.Random(seed)
        self._directory = directory
        self._machine = machine = Machine()
        self._clock = Clock(machine, directory)
        self._ahead_s = 0.0
        machine.start_head("--num-cpus", "2")
        self._go = directory / "go"
        self._run("long", f"until [ -e {self._go} ]; do sleep 0.1; done", "--time", LONG)
        self._run("waits", "true", "--cpus", "2", "--deadline", f"now+{LONG}")
        until(lambda: self._state("long") == "Running")
        (directory / "cron.yaml").write_text(CRON)
        machine.done("submit", str(directory / "cron.yaml"))
        until(lambda: made(machine) > 0)
        self.seen = {"rounds": 0, "ahead": 0, "back": 0}

    def run(self, rounds: int) -> dict[str, int]:
        """Step the clock this many times; return what was seen. Raises AssertionError."""
        for number in range(rounds):
            step_s = self._rng.choice(STEPS_S) * self._rng.choice((-1, 1))
            if self._ahead_s and self._rng.random() < 0.5:
                step_s = -self._ahead_s  # it is corrected
            print(f"the clock is set by {step_s:+g} s", file=sys.stderr, flush=True)
            self.seen["ahead" if step_s > 0 else "back"] += 1
            self._round(f"job{number}", step_s)
            self.seen["rounds"] += 1
        if self._ahead_s:
            self._clock.set(0.0)
        self._go.touch()
        for name in ("long", "waits"):
            until(lambda name=name: self._is_over(name))  # type: ignore[misc]
            assert self._state(name) == "Completed", f"{name} is {self._state(name)}"
        use = sum(row.use for row in self._machine.ask(GetShares("default")))
        assert use < 3600.0, f"{use} seconds of a CPU are billed"
        self._is_listed_once(["long", "waits", *(f"job{number}" for number in range(rounds))])
        return self.seen

    def _round(self, name: str, step_s: float) -> None:
        """Set the clock while a job runs. Check that the job continues, and that the cron job is
        due by real time.
        """
        go = self._directory / f"{name}.go"
        self._run(name, f"until [ -e {go} ]; do sleep 0.1; done", "--cpus", "0.5", "--time", "1h")
        until(lambda: self._state(name) == "Running")
        self._ahead_s += step_s
        self._clock.set(self._ahead_s)
        before = made(self._machine)
        eventually(lambda: made(self._machine) != before, "the cron job goes on")
        assert self._state(name) == "Running", f"{name} is {self._state(name)}"
        assert self._state("long") == "Running"
        assert self._state("waits") == "Pending", f"its deadline is {LONG} away"
        go.touch()
        until(lambda: self._is_over(name))
        assert self._state(name) == "Completed", f"{name} is {self._state(name)}"

    def _run(self, name: str, line: str, *options: str) -> None:
        self._machine.done("run", "--detach", "--name", name, *options, "--", "sh", "-c", line)

    def _state(self, name: str) -> str:
        return str(self._machine.jobs()[name]["state"])

    def _is_over(self, name: str) -> bool:
        return self._state(name) not in ("Pending", "Running")

    def _is_listed_once(self, names: list[str]) -> None:
        commands = self._directory / "bin"
        self._machine.done("compat", "slurm", "install", str(commands))
        words = [str(commands / "sacct"), "-nPX", "-S", "1970-01-02", "-o", "JobName"]
        rows = subprocess.check_output(words, env=self._machine.env, text=True).split()
        for name in names:
            assert rows.count(name) == 1, f"{name} is listed {rows.count(name)} times"

    def close(self) -> None:
        self._machine.end()


def main(rounds: str, seed: str, directory: str) -> None:
    trial = Trial(Path(directory), int(seed))
    try:
        print(json.dumps(trial.run(int(rounds))), flush=True)
    finally:
        trial.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
