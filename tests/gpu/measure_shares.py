"""Measures two jobs that share a GPU by time and by MPS, beside one job alone, in one run.

    python -m tests.gpu.measure_shares [SECONDS] [--rehearse]

Needs a machine with a GPU and `nvidia-cuda-mps-control`. It starts a cluster of its own on this
machine, runs jobs of small steps on it, and prints each figure as soon as it is known: the steps of
each job in the seconds in which all of them ran, the seconds that the second sharer took to start,
whether a job that takes more memory than it asked for is ended or refused the memory, what becomes
of sharers whose daemon is killed, whether the card is split, and how two users share the card
(`two_users`, by root). A part that fails is printed with its reason, and the next part begins. Each
job that computes small steps runs for SECONDS (20). With `--rehearse` nothing needs a GPU: a file
declares the card, a program stands in for the daemon of MPS, and the CPU computes the steps.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
from tests.gpu.fakes import DAEMON, declare_card, idle_command, pid_in
from tests.gpu.two_users import two_users

import phalanx
from phalanx.cluster_utils import Cluster

REPO = Path(__file__).parents[2]
STEPS, TAKES = "tests.gpu.small_steps", str(Path(__file__).with_name("program.py"))
TAKEN = 4 * 2**30
"""The bytes that a greedy job takes."""
LONGEST_S = 60.0
"""How long a part waits for the end of a job beyond the job's own time."""
GOALS = (
    "goals: the second sharer starts within 1 s; with MPS each of two does at least 80 % of half "
    "of what one does alone, and both together 1.3 times what they do by time"
)
Rows = dict[str, tuple[list[float], float]]
"""For each way to use the GPU: the steps per second of each job, and when the last job was ready.
"""


class Measurement:
    """The parts of a run. `declared`: the directory with the declared card; None for a real one."""

    def __init__(self, seconds: float, declared: Path | None) -> None:
        self._seconds = seconds
        self._steps = ["--cpu"] if declared else []
        self._declared = declared
        self._begun: list[phalanx.JobHandle] = []
        self.rows: Rows = {}

    def alone(self) -> None:
        """Run one job with the whole card."""
        self._measured("alone", [self._begin("alone", num_gpus=1)])

    def shared(self, mode: str) -> None:
        """Run two jobs with half of the card each."""
        half: dict[str, object] = {"num_gpus": 0.5, "gpu_share": mode}
        handles = [self._begin(f"first-{mode}", **half)]
        time.sleep(min(5.0, self._seconds / 4))
        handles.append(self._begin(f"second-{mode}", **half))
        self._measured(mode, handles)

    def limit(self, mode: str) -> None:
        """Run a job that takes 4 GiB although it asked for 1 GiB."""
        asked = {"gpu_memory": "1GiB", "gpu_share": mode}
        takes = [sys.executable, TAKES, str(TAKEN >> 20), "600"]
        said = self._declared and self._declared / f"pid-{mode}"
        begun = time.monotonic()
        handle = self._submit(f"greedy-{mode}", idle_command(said) if said else takes, **asked)
        if self._declared and said:
            declare_card(self._declared, (pid_in(said), TAKEN))
        state = handle.wait(LONGEST_S)
        if self._declared:
            declare_card(self._declared)
        took = time.monotonic() - begun
        last = handle.logs().strip().rpartition("\n")[2]
        why = handle.describe().reason
        line = f"; last line: {last}" if last else ""
        print(f"memory limit by {mode}: {state} after {took:.1f} s: {why}{line}", flush=True)

    def killed_daemon(self) -> None:
        """Kill the daemon of two sharers, and start a third sharer afterwards."""
        half = {"num_gpus": 0.5, "gpu_share": "mps"}
        handles = [self._steps_for(LONGEST_S, f"with-daemon-{i}", **half) for i in range(2)]
        daemon = _eventually(_daemon)
        begun = time.monotonic()
        os.kill(daemon, signal.SIGKILL)
        for handle in handles:
            state = handle.wait(LONGEST_S)
            took = time.monotonic() - begun
            print(f"killed daemon: {state} after {took:.1f} s: {handle.describe().reason}")
        begun = time.monotonic()
        third = self._steps_for(1.0, "after-daemon", **half)
        state = third.wait(LONGEST_S)
        print(f"killed daemon: the next sharer: {state} after {time.monotonic() - begun:.1f} s")

    def compare(self) -> None:
        """Print the ratios of rates for which the project has goals."""
        rates = {name: rates for name, (rates, _) in self.rows.items()}
        if "alone" in rates and "mps" in rates:
            half = rates["alone"][0] / 2
            parts = ", ".join(f"{100 * rate / half:.0f} %" for rate in rates["mps"])
            print(f"each of two by MPS, of half of one alone: {parts}")
        if "time" in rates and "mps" in rates:
            print(f"both by MPS, of both by time: {sum(rates['mps']) / sum(rates['time']):.2f}")

    def end(self) -> None:
        """End the jobs that a failed part has left."""
        for handle in self._begun:
            if handle.state not in ("Completed", "Failed", "Aborted", "Terminated"):
                handle.cancel()
        self._begun.clear()

    def _begin(self, name: str, **options: object) -> phalanx.JobHandle:
        return self._steps_for(self._seconds, name, **options)

    def _steps_for(self, seconds: float, name: str, **options: object) -> phalanx.JobHandle:
        command = [sys.executable, "-m", STEPS, str(seconds), *self._steps]
        return self._submit(name, command, **options)

    def _submit(self, name: str, command: list[str], **options: object) -> phalanx.JobHandle:
        env = {"PYTHONPATH": str(REPO)}
        job = phalanx.Job(command, name=name, working_dir=str(REPO), env=env, **options)  # type: ignore[arg-type]
        handle = phalanx.submit(job)
        self._begun.append(handle)
        return handle

    def _measured(self, name: str, handles: list[phalanx.JobHandle]) -> None:
        found = [self._said(handle) for handle in handles]
        together = set.intersection(*(set(counts) for _, counts in found))
        if not together:
            raise RuntimeError("the jobs did not run in the same seconds")
        rates = [sum(counts[at] for at in together) / len(together) for _, counts in found]
        self.rows[name] = (rates, found[-1][0])
        each = ", ".join(f"{rate:,.0f}" for rate in rates)
        print(
            f"{name}: {each} steps/s, together {sum(rates):,.0f}; the last one was ready "
            f"{found[-1][0]:.2f} s after the start of its process",
            flush=True,
        )

    def _said(self, handle: phalanx.JobHandle) -> tuple[float, dict[int, int]]:
        """Return the seconds until a job was ready, and its steps in each whole second."""
        state = handle.wait(self._seconds + LONGEST_S)
        if state != "Completed":
            raise RuntimeError(f"{state}: {handle.describe().reason} {handle.logs()[-500:]}")
        (_, ready), *lines = (line.split() for line in handle.logs().splitlines() if " " in line)
        counts = {int(second): int(count) for second, count in lines[1:]}  # the first is not whole
        return float(ready), counts


def no_gpu() -> str:
    """Return why this machine has no GPU; empty if it has one."""
    try:
        pynvml.nvmlInit()
        return "" if pynvml.nvmlDeviceGetCount() else "no GPU of NVIDIA here"
    except pynvml.NVMLError as error:
        return f"no GPU of NVIDIA here: {error}"


def split_cards() -> None:
    """Print whether the first card is split (MIG). The script changes nothing about it."""
    pynvml.nvmlInit()
    try:
        now, after_reset = pynvml.nvmlDeviceGetMigMode(pynvml.nvmlDeviceGetHandleByIndex(0))
        print(f"MIG of the first card: {now} now, {after_reset} after a reset (1: on)")
    finally:
        pynvml.nvmlShutdown()


def _daemon() -> int:
    """Return the pid of the MPS daemon that a running job uses; 0 if no job uses one."""
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{process}/cmdline").read_bytes()
            variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for variable in variables:
            name, _, folder = variable.partition(b"=")
            if name == b"CUDA_MPS_PIPE_DIRECTORY" and STEPS.encode() in words:
                file = Path(os.fsdecode(folder)) / "nvidia-cuda-mps-control.pid"
                return int(file.read_text()) if file.exists() else 0
    return 0


def _eventually(look: Callable[[], int]) -> int:
    end = time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.2)
    raise RuntimeError("no job uses a daemon of MPS")


def run(seconds: float, rehearses: bool, folder: Path) -> int:
    """Print the figures. Returns the number of parts that failed."""
    devices: dict[str, Any] = {}
    if rehearses:
        daemon = folder / "nvidia-cuda-mps-control"
        daemon.write_text(DAEMON)
        daemon.chmod(0o700)
        os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
        devices["devices"] = str(declare_card(folder))
    parts = Measurement(seconds, folder if rehearses else None)
    cluster = Cluster()
    cluster.add_node(num_cpus=4, num_gpus=1, **devices)
    cluster.connect(namespace="shares")
    tried: dict[str, Callable[[], None]] = {
        "alone": parts.alone,
        "shared by time": lambda: parts.shared("time"),
        "shared by MPS": lambda: parts.shared("mps"),
        "memory limit by time": lambda: parts.limit("time"),
        "memory limit by MPS": lambda: parts.limit("mps"),
        "killed daemon": parts.killed_daemon,
        "split cards": split_cards,
        "ratios": parts.compare,
    }
    if rehearses:
        del tried["split cards"]  # only the driver knows
    failed = 0
    try:
        for name, part in tried.items():
            try:
                part()
            except Exception as error:
                failed += 1
                print(f"{name}: not measured: {error}", flush=True)
            finally:
                parts.end()
    finally:
        cluster.shutdown()
    try:
        two_users(seconds, rehearses)
    except Exception as error:
        failed += 1
        print(f"two users: not measured: {error}", flush=True)
    print(GOALS)
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=20.0)
    parser.add_argument("--rehearse", action="store_true", help="without a GPU")
    options = parser.parse_args()
    os.environ.setdefault("PYTHONPATH", str(REPO))
    if not options.rehearse and (trouble := no_gpu()):
        print(f"nothing is measured: {trouble}")
        sys.exit(0)
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(run(options.seconds, options.rehearse, Path(folder)))
