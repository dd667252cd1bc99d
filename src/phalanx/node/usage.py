"""Computes the usage of members of jobs from samples of processes and devices; see
`model.attempts.Used`.

This module is pure. A `UsageMeter` is asked for a measurement at one tick, and answers at a later
tick. Every SAMPLE_EVERY_S seconds, one sample is taken of the processes of all members of a node.
The CPU time of a process that has ended is the kernel's count, which includes child processes that
no sample has seen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from phalanx.model.attempts import Used
from phalanx.model.member_use import MemberUse
from phalanx.observe.accounting.series import Series

SAMPLE_EVERY_S = 5.0
"""Seconds between samples of members' processes."""
IDLE_PART = 0.05
"""The fraction of its requested CPUs below which a member counts as idle."""
LEAST_PIECE_S = 1.0
"""If an attempt ends fewer than this number of seconds after its last sample, no CPU use is
computed for the time after the sample. Otherwise, CPU time that the kernel has added late would
count too much.
"""
Processes = Mapping[int, tuple[float, int]]
"""By pid: the CPU seconds that a process has used since it began, and the bytes of memory that it
uses. Both numbers include the process's children.
"""
Device = tuple[float, float, float]
"""A device: (the fraction of the last seconds in which it computed, its bytes in use, its bytes in
total).
"""


class UsageSample(NamedTuple):
    """A measurement of a machine's processes and devices."""

    processes: Processes
    devices: Mapping[int, Device]


class UsageMeter(Protocol):
    """Measures processes in the background."""

    def ask(self, pids: Collection[int]) -> None:
        """Begin to measure these processes, if no measurement is in progress."""
        ...

    def answer(self) -> Processes | None:
        """Return the last measurement; None until it is ready. Each measurement is returned
        once.
        """
        ...


class NoUsageMeter:
    """The usage meter of a node on which nothing is measured."""

    def ask(self, pids: Collection[int]) -> None:
        """Do nothing."""

    def answer(self) -> None:
        """Return None: nothing was measured."""
        return


class MemberUsage:
    """The usage of one attempt of a member."""

    def __init__(self, cpus: float, devices: Collection[int], now: float) -> None:
        """`cpus`: the number of CPUs that the member requested. `devices`: the numbers of its
        GPUs.
        """
        self.devices = tuple(devices)
        self.cpus = cpus
        """The number of CPUs that the member holds."""
        self._began_at = self._sampled_at = now
        self._pids: dict[bytes, int] = {}
        self._seen_s: dict[bytes, float] = {}
        """The CPU seconds of each living process, as last measured."""
        self._ended_s = 0.0
        """The CPU seconds of processes that have ended."""
        self._sampled_s = 0.0
        """The CPU seconds that were counted up to the last sample."""
        self._cpu, self._memory, self._gpu = Series(), Series(), Series()
        self._gpu_memory = Series()
        self._gpu_memory_total = 0.0
        self._cpu_idle_s = self._gpu_idle_s = 0.0
        self._samples = 0
        self.last_cpus: float | None = None
        """The number of CPUs that were busy between the last two samples; None before them."""
        self.last_memory: float | None = None
        """The bytes of memory at the last sample; None before it."""

    @property
    def pids(self) -> list[int]:
        """The pids of the member's living processes."""
        return list(self._pids.values())

    def began(self, process: bytes, pid: int) -> None:
        """Add a process of the member."""
        self._pids[process] = pid

    def exited(self, process: bytes, cpu_s: float, memory: float) -> None:
        """Note that a process has ended, and count what it has used. `cpu_s` and `memory`: the
        kernel's values of its CPU seconds and its largest memory.
        """
        self._pids.pop(process, None)
        self._ended_s += max(cpu_s, self._seen_s.pop(process, 0.0))
        self._memory.add(0.0, memory)

    def sample(self, now: float, sample: UsageSample) -> None:
        """Add a sample."""
        seen = {
            p: sample.processes[pid] for p, pid in self._pids.items() if pid in sample.processes
        }
        if not seen:
            return
        for process, (cpu_s, _) in seen.items():
            self._seen_s[process] = max(cpu_s, self._seen_s.get(process, 0.0))
        length_s = self._count_cpu(now)
        self.last_memory = sum(memory for _, memory in seen.values())
        self._memory.add(length_s, self.last_memory)
        devices = [sample.devices[one] for one in self.devices if one in sample.devices]
        if devices and len(devices) == len(self.devices):
            self._gpu.add(length_s, sum(busy for busy, _, _ in devices) / len(devices))
            self._gpu_idle_s += length_s * sum(busy <= 0 for busy, _, _ in devices)
            self._gpu_memory.add(length_s, sum(used for _, used, _ in devices))
            self._gpu_memory_total = sum(total for _, _, total in devices)
        self._samples += 1

    def _count_cpu(self, now: float) -> float:
        """Count the CPU seconds since the last sample. Returns how many seconds have passed since
        that sample.
        """
        length_s = max(now - self._sampled_at, 0.0)
        total_s = self._ended_s + sum(self._seen_s.values())
        spent_s, self._sampled_s = max(total_s - self._sampled_s, 0.0), total_s
        self._sampled_at = max(now, self._sampled_at)
        if length_s > 0:
            used = spent_s / length_s
            self._cpu.add(length_s, used)
            self.last_cpus = used
            if used < IDLE_PART * self.cpus:
                self._cpu_idle_s += length_s
        return length_s

    def over_time(self) -> MemberUse:
        """Return the usage since the attempt began, up to the last sample."""
        return MemberUse(
            cpus=list(self._cpu.pieces),
            memory=list(self._memory.pieces),
            gpus=list(self._gpu.pieces),
            gpu_memory=list(self._gpu_memory.pieces),
        )

    def total(self, now: float) -> Used:
        """Return the usage of the attempt, which has just ended."""
        if not self._samples or now - self._sampled_at >= LEAST_PIECE_S:
            self._count_cpu(now)
        is_measured = self._gpu_memory_total > 0
        return Used(
            ran_s=max(now - self._began_at, 0.0),
            cpu_s=self._ended_s + sum(self._seen_s.values()),
            cpu_max=self._cpu.maximum,
            cpu_p95=self._cpu.p95(),
            cpu_idle_s=self._cpu_idle_s,
            memory_mean=self._memory.mean,
            memory_max=self._memory.maximum,
            memory_p95=self._memory.p95(),
            gpus=len(self.devices) if is_measured else 0,
            gpu_mean=self._gpu.mean,
            gpu_max=self._gpu.maximum,
            gpu_p95=self._gpu.p95(),
            gpu_idle_s=self._gpu_idle_s,
            gpu_memory_mean=self._gpu_memory.mean,
            gpu_memory_max=self._gpu_memory.maximum,
            gpu_memory_total=self._gpu_memory_total,
            samples=self._samples,
        )
