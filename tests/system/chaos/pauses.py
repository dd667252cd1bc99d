"""A cluster whose processes are stopped and continued under load, and checks of the result.

    python -m tests.system.chaos.pauses PAUSES SEED STORE

The stopped processes are the head, nodes, gateways, fork servers, workers and their parents, owners
of tasks, the server of the page, and commands that are being started. A node is stopped for less
time than it may be silent, because the head declares a node dead that is silent for longer. The
others are stopped for up to one and a half times as long as a node may be silent.

In some rounds a job that ignores SIGTERM is cancelled meanwhile. If the processes that must end it
run, it ends when its grace is over. Prints what was seen, as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.node_parts import children_named, workers_of
from tests.system.chaos.head_restarts import PATIENCE_S, Load, until
from tests.system.chaos.pause_parts import Owner, Page, beginnings, shields_of
from tests.system.chaos.soaking import logs_text

import phalanx
from phalanx.cluster_utils import Cluster, ClusterNode
from phalanx.model.rows.cluster import StatusInfo
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.runtime.daemons.daemon_files import daemons
from phalanx.runtime.daemons.visitor import ask_daemon
from phalanx.runtime.os.process_names import FORK_SERVER, GATEWAY
from phalanx.runtime.os.process_tree import children_of

SILENCE_S = 4.0
LIMITS = {"period_s": 1.0, "misses": int(SILENCE_S), "joining_s": 1.0}
KINDS = (
    "head", "node", "gateway of head", "gateway", "fork server", "worker", "shield", "command",
    "driver", "owner", "page",
)  # fmt: skip
"""The kinds of processes that are stopped. "command" is a process that is being started, for which
a thread of the fork server waits.
"""
BYSTANDERS = ("fork server", "worker", "driver", "owner", "page", "command")
"""Kinds of processes that are not needed to cancel a job and end it."""
TASKS = 10
"""The number of tasks that the owner starts at once."""
DRIVER = """
import sys, phalanx
phalanx.init(address=sys.argv[1], log_to_driver=False)
@phalanx.remote(max_retries=0, num_cpus=0.1)
def echo(i):
    return i
done = 0
for line in sys.stdin:
    assert phalanx.get([echo.remote(i) for i in range(20)]) == list(range(20))
    done += 20
    print(done, flush=True)
"""


@phalanx.remote(max_retries=0, num_cpus=0.25)
def member(place: str) -> int:
    """Run as a member of a gang: record the start."""
    gang = phalanx.get_runtime_context().gang
    assert gang is not None
    with open(place, "a") as file:
        file.write(f"{gang.rank}\n")
    return gang.rank


class Work(Load):
    """The load of `head_restarts`, plus gangs whose members run once, and an actor that owns
    tasks.
    """

    def __init__(self, directory: Path) -> None:
        self.gangs = self.owned = 0
        self._owner = Owner.remote()
        self.owner_pid = phalanx.get(self._owner.pid.remote(), timeout=PATIENCE_S)
        self._place = directory / "members"
        super().__init__(directory)

    def works(self) -> list[Callable[[], None]]:
        return [*super().works(), self._run_gang, self._ask_owner]

    def _ask_owner(self) -> None:
        asked = self._owner.ask.remote(self.owned, TASKS)
        found = phalanx.get(asked, timeout=PATIENCE_S)
        assert found == list(range(self.owned, self.owned + TASKS)), found
        self.owned += TASKS
        self._is_over.wait(0.1)

    def _run_gang(self) -> None:
        ranks = phalanx.get(member.gang(2).remote(str(self._place)), timeout=PATIENCE_S)
        assert ranks == [0, 1], ranks
        self.gangs += 1
        self._is_over.wait(0.2)

    def check(self) -> None:
        super().check()
        ran = sorted(self._place.read_text().split())
        assert ran == ["0"] * self.gangs + ["1"] * self.gangs, "each member ran once"


class OtherDriver:
    """Another program on the cluster, whose tasks may run once and no more."""

    def __init__(self, address: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.done = 0

    def ask(self) -> None:
        assert self.process.stdin is not None
        print("go", file=self.process.stdin, flush=True)

    def check(self) -> None:
        """Check that the other driver has completed its last round. Raises AssertionError."""
        assert self.process.stdout is not None
        self.done += 20
        said = self.process.stdout.readline().strip()
        assert said == str(self.done), f"the other driver says {said!r}"

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) == 0


class Cancelled:
    """A job that only SIGKILL ends. A thread cancels it."""

    def __init__(self, began: Path, grace_s: float) -> None:
        command = f"trap '' TERM; echo $$ > {began}; while :; do sleep 0.1; done"
        self._job = phalanx.submit(phalanx.Job(command, num_cpus=0.25, grace_s=grace_s))
        until(lambda: began.exists() and began.read_text().endswith("\n"))
        self._pid = int(began.read_text())
        self._thread = threading.Thread(target=self._cancel, daemon=True)
        self._state = ""

    def begin(self) -> None:
        self._thread.start()

    def _cancel(self) -> None:
        self._job.cancel()
        self._state = self._job.wait(PATIENCE_S)

    def check(self) -> None:
        """Wait until the job has ended. Raises AssertionError unless it was ended and its process
        is gone.
        """
        self._thread.join(PATIENCE_S)
        assert self._state == "Terminated", f"a cancelled job is {self._state or 'not over'}"
        assert not Path(f"/proc/{self._pid}/cwd").exists(), "its process is gone"


class Trial:
    """One cluster, its load and its pauses."""

    def __init__(self, store: str, seed: int) -> None:
        self._rng = random.Random(seed)
        self._kinds: list[str] = []
        self._work = Path(store).parent
        self._cluster = Cluster(store=store, limits=LIMITS)
        for _ in range(2):
            self._cluster.add_node(num_cpus=2)
        self._cluster.connect(namespace="pauses")
        self._cluster.wait_for_nodes(PATIENCE_S)
        self._nodes = {row.node_id for row in self._status().nodes}
        self._done, began = self._work / "done", self._work / "began"
        command = f"echo began >> {began}; until test -e {self._done}; do sleep 0.2; done"
        self._long = phalanx.submit(phalanx.Job(command, num_cpus=0.5))
        self._began = began
        self._load = Work(self._work)
        self._driver = OtherDriver(self._cluster.address)
        self._page = Page(self._cluster.address, self._work)
        self._servers = self._processes()
        self.seen: dict[str, int] = {"rounds": 0, "cancelled": 0}

    def run(self, pauses: int) -> dict[str, int]:
        """Stop processes this many times; return counts of what happened. Raises AssertionError."""
        for _ in range(pauses):
            self._goes_on(self._rng.randrange(20))
            self._driver.ask()
            self._pause()
            self._driver.check()
            self._page.wait_for(self._load.jobs[-1][0].name)
            self.seen["rounds"] += 1
            assert not self._load.errors, self._load.errors
        self._load.end()
        self._driver.end()
        self._done.touch()
        assert self._long.wait(PATIENCE_S) == "Completed"
        assert self._began.read_text() == "began\n", "the long job ran once"
        self._load.check()
        status = self._status()
        assert not status.troubles, status.troubles
        assert not status.lost_nodes, status.lost_nodes
        states = {row.node_id: row.state for row in status.nodes}
        assert states == dict.fromkeys(self._nodes, "ALIVE"), "no node ended"
        assert self._servers <= self._processes(), "no gateway and no fork server ended"
        load = self._load
        counts = {"jobs": len(load.jobs), "tasks": load.tasks, "calls": load.calls}
        return {**self.seen, **counts, "gangs": load.gangs, "owned": load.owned}

    def _goes_on(self, calls: int) -> None:
        """Wait until `calls` more calls of the load are answered. The load makes its calls one
        after another.
        """
        wanted = self._load.calls + calls
        until(lambda: self._load.calls >= wanted or bool(self._load.errors))

    def _pause(self) -> None:
        node: ClusterNode = self._rng.choice(self._cluster.list_all_nodes())
        head = self._cluster.head_pid
        assert head is not None
        kind = self._next_kind()
        longest = SILENCE_S / 2 if kind == "node" else 1.5 * SILENCE_S
        seconds = min(self._rng.choice((0.2, 1.0, longest)), longest)
        cancelled = (
            self._to_cancel(self._rng.choice((0.1, 1.0))) if self._rng.random() < 0.3 else None
        )
        found = {
            "head": lambda: [head],
            "node": lambda: [node.pid],
            "gateway of head": lambda: children_named(head, GATEWAY),
            "gateway": lambda: children_named(node.pid, GATEWAY),
            "fork server": lambda: children_named(node.pid, FORK_SERVER),
            "worker": lambda: workers_of(node.pid),
            "shield": lambda: shields_of(node.pid),
            "command": lambda: self._beginning(node.pid),
            "driver": lambda: [self._driver.process.pid],
            "owner": lambda: [self._load.owner_pid],
            "page": lambda: [self._page.pid],
        }[kind]()
        pid = self._rng.choice(found) if found else None
        print(f"{kind} {pid} is stopped for {seconds:g} s", file=sys.stderr, flush=True)
        if pid is not None:
            self.seen[kind] = self.seen.get(kind, 0) + 1
            _signal(pid, signal.SIGSTOP)
        try:
            if cancelled is not None:
                cancelled.begin()
                if kind in BYSTANDERS:
                    cancelled.check()
            time.sleep(seconds)
        finally:
            if pid is not None:
                _signal(pid, signal.SIGCONT)
        if cancelled is not None:
            cancelled.check()

    def _next_kind(self) -> str:
        """Return the next kind of process to stop. Every kind comes once before any kind comes
        again.
        """
        if not self._kinds:
            self._kinds = self._rng.sample(KINDS, len(KINDS))
        return self._kinds.pop()

    def _beginning(self, node: int) -> list[int]:
        """Wait until the fork server of a node makes new processes; return their pids."""
        before = set(beginnings(node, set()))
        end = time.monotonic() + SILENCE_S
        while not (found := beginnings(node, before)) and time.monotonic() < end:
            pass  # a process becomes a program within a millisecond
        return found

    def _to_cancel(self, grace_s: float) -> Cancelled:
        self.seen["cancelled"] += 1
        return Cancelled(self._work / f"cancelled{self.seen['cancelled']}", grace_s)

    def _processes(self) -> set[int]:
        """Return the pids of the head and the nodes, and of their child processes: gateways and
        fork servers.
        """
        head = self._cluster.head_pid
        assert head is not None
        parents = [head, *(node.pid for node in self._cluster.list_all_nodes())]
        return {*parents, *(child for one in parents for child in children_of(one))}

    def _status(self) -> StatusInfo:
        (head,) = [found for found in daemons(self._cluster.temp_dir) if found[1].kind == "head"]
        return ask_daemon(*head, GetStatus(), PATIENCE_S)

    def close(self) -> None:
        logs = logs_text(Path(self._cluster.temp_dir, "logs"))
        self._driver.process.kill()
        self._page.end()
        self._cluster.shutdown()
        if sys.exc_info()[0] is not None:
            print(logs, file=sys.stderr)


def _signal(pid: int, number: int) -> None:
    """Send a signal to a process. Do nothing if the process has ended, as idle workers may."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def main(pauses: str, seed: str, store: str) -> None:
    trial: Any = Trial(store, int(seed))
    try:
        print(json.dumps(trial.run(int(pauses))), flush=True)
    finally:
        trial.close()


if __name__ == "__main__":
    os.environ["PHALANX_ADDRESS"] = "local"
    main(*sys.argv[1:])
