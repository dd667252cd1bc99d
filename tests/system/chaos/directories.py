"""A cluster on small disks. Its directories are filled, removed and made read-only while jobs run.

    python -m tests.system.chaos.directories ROUNDS SEED DISKS

DISKS is a directory with small file systems `a` and `b`, in a mount namespace of this program. Jobs
on the first node write their output to `a`, those on the second node to `b`. This program mounts
two more file systems: `run` has the sessions, and `store` the head's store. When anything happens
to one of the four, no running job may end or start again. Requests that are made meanwhile must be
carried out or refused with a reason, and everything must go on afterwards. Prints what was seen, as
JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.polling import eventually
from tests.system.chaos.head_restarts import until
from tests.system.cli.conftest import Machine

from phalanx.model.member_logs import MAY_BE_LOST

HARMS = ("full", "removed", "read-only")
REFUSALS = (1, 2, 120)


@contextlib.contextmanager
def harmed(place: Path, harm: str) -> Iterator[None]:
    """Fill, empty or lock this file system while the block runs."""
    if harm == "full":
        ballast = place / "ballast"
        for block in (bytes(1 << 20), bytes(4096)):
            with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
                while True:
                    file.write(block)
        yield
        ballast.unlink()
    elif harm == "removed":
        for name in os.listdir(place):
            shutil.rmtree(place / name, ignore_errors=True)
        yield
    else:  # files that are open stay writable, as where rights are taken away
        for options in (["--bind", str(place)], ["-o", "remount,bind,ro"]):
            subprocess.run(["mount", *options, str(place)], check=True)
        yield
        subprocess.run(["umount", "--lazy", str(place)], check=True)


class Trial:
    """Two nodes, two jobs that run through all rounds, and jobs that are submitted in each
    round.
    """

    def __init__(self, disks: Path, seed: int) -> None:
        self._rng = random.Random(seed)
        self._asked: list[str] = []
        self.seen = {"rounds": 0, "refused": 0, "lost output, and said": 0}
        self._machine = machine = Machine()
        self._home = Path(machine.home)
        run = machine.env["XDG_RUNTIME_DIR"]
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=700", "none", run], check=True)
        os.mkdir(machine.root, 0o700)
        store = self._home / ".phalanx" / "store"
        store.mkdir(parents=True)
        # a head takes no new work where less than 64 MiB are left
        mount = ["mount", "-t", "tmpfs", "-o", "size=160m,mode=700", "none", str(store)]
        subprocess.run(mount, check=True)
        self._places = {"a": disks / "a", "b": disks / "b", "run": Path(run), "store": store}
        machine.env["TMPDIR"] = str(disks / "a")
        address = machine.start_head()
        machine.env["TMPDIR"] = str(disks / "b")
        machine.join(address, "second")
        self._before = {key: one.pid for key, one in machine.daemons().items()}
        self._long = [f"long{number}" for number in range(2)]
        for name in self._long:
            self._submit(name, cpus="0.5")

    def run(self, rounds: int) -> dict[str, int]:
        """Damage directories this many times; return counts of what happened. Raises
        AssertionError.
        """
        for name in self._long:
            until(lambda name=name: self._began(name) == 1)  # type: ignore[misc]
        for _ in range(rounds):
            self._round()
            self.seen["rounds"] += 1
        for name in self._long:
            self._end(name)
            assert self._began(name) == 1, f"{name} was started once"
        assert self._pids() == self._before, "the head and the nodes are the same"
        return {**self.seen, "jobs": len(self._asked)}

    def _round(self) -> None:
        place, harm = self._rng.choice(sorted(self._places)), self._rng.choice(HARMS)
        before, during = (f"job{self.seen['rounds']}-{when}" for when in ("before", "during"))
        print(f"{place} is {harm}", file=sys.stderr, flush=True)
        # the head may have looked at its disk just before there was room again
        until(lambda: self._submit(before, cpus="0.25", may_fail=True))
        until(lambda: self._began(before) == 1)
        ends_meanwhile = self._rng.random() < 0.5
        key = f"{place} {harm}"
        self.seen[key] = self.seen.get(key, 0) + 1
        with harmed(self._places[place], harm):
            is_taken = self._submit(during, cpus="0.25", may_fail=True)
            if ends_meanwhile:
                self._let_end(before)
        for name in [before, *([during] if is_taken else [])]:
            self._end(name)
            assert self._began(name) == 1, f"{name} was started {self._began(name)} times"
        eventually(lambda: self._answers() and self._states() == {"ALIVE"}, "all nodes are well")

    def _submit(self, name: str, *, cpus: str, may_fail: bool = False) -> bool:
        """Submit a job that records its start and runs until it may end. Returns whether it was
        accepted.
        """
        file, go = self._home / name, self._home / f"{name}.go"
        line = f"echo first; echo x >> {file}; until [ -e {go} ]; do sleep 0.1; done; echo last"
        words = ("run", "--detach", "--name", name, "--cpus", cpus, "--", "sh", "-c", line)
        done = self._machine.phalanx(*words)
        if done.returncode == 0:
            self._asked.append(name)
            return True
        assert may_fail, done.stderr
        assert done.returncode in REFUSALS and done.stderr.strip(), (done.returncode, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        self.seen["refused"] += 1
        return False

    def _let_end(self, name: str) -> None:
        (self._home / f"{name}.go").touch()

    def _end(self, name: str) -> None:
        """Let a job end, and check its final state and its output."""
        self._let_end(name)
        eventually(self._answers, "the head answers")
        state = eventually(lambda: self._state_at_end(name), f"{name} ends")
        assert state == "Completed", f"{name} is {state}: {self._machine.done('job', name)}"
        logs = self._machine.phalanx("logs", name)
        if logs.stdout != "first\nlast\n":
            assert MAY_BE_LOST in logs.stderr, f"{name} printed {logs.stdout!r}: {logs.stderr}"
            self.seen["lost output, and said"] += 1

    def _state_at_end(self, name: str) -> str:
        try:
            state = str(self._machine.jobs()[name]["state"])
        except ConnectionError:  # the head's socket is not there again
            return ""
        return "" if state in ("Pending", "Running") else state

    def _began(self, name: str) -> int:
        file = self._home / name
        return len(file.read_text().split()) if file.exists() else 0

    def _answers(self) -> bool:
        return self._machine.phalanx("status", "--json").returncode == 0

    def _states(self) -> set[str]:
        with contextlib.suppress(ConnectionError):
            return {str(row["state"]) for row in self._machine.nodes().values()}
        return set()

    def _pids(self) -> dict[str, int]:
        return {key: one.pid for key, one in self._machine.daemons().items()}

    def close(self) -> None:
        self._machine.end()


def main(rounds: str, seed: str, disks: str) -> None:
    trial = Trial(Path(disks), int(seed))
    try:
        print(json.dumps(trial.run(int(rounds))), flush=True)
    finally:
        trial.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
