"""AntMan: guests use GPUs that are guaranteed to other jobs, when these jobs do not need them.

The policy follows AntMan (Xiao et al., OSDI 2020), as Muri's simulator implements it. Jobs with a
priority below 0 are guests, and all other jobs are hosts. No job is stopped. Hosts come first, in
order of submission.

- A host does not share its GPUs with other hosts, and is not slowed down by guests. If a host does
  not fit, it keeps the free GPUs of the machine that has the most, and waits for further GPUs of
  this machine. A host that is larger than a machine keeps whole machines.
- A guest takes the GPUs with the smallest load, on any machines. A GPU has at most one guest.
- The speed of a guest is that of its slowest GPU (`stages.guest_s`).
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx_research.timed.studied.live import Decision, Live, Terms, check_stages
from phalanx_research.timed.studied.stages import guest_s
from phalanx_research.timed.workload import Job

HOST_LOAD = 0.1
STARTED = 0.01
"""The part of a host's load that counts only once the host has started. The rest also counts while
the host waits.
"""
GUEST_LOAD = 0.9
FULL = 0.8
"""The load from which a GPU takes no further guests."""


class Gpu:
    """One GPU, its jobs and its load. `load` is a running sum in floating point. Guests choose GPUs
    by their loads. Among GPUs on which nothing runs, the rounding errors of the sums decide, as in
    Muri's simulator.
    """

    __slots__ = ("guests", "host", "load", "machine")

    def __init__(self, machine: int) -> None:
        self.machine = machine
        self.load = 0.0
        self.host: Live | None = None
        self.guests: list[Live] = []


class AntMan:
    """The policy AntMan. `gpus` has the number of GPUs of each machine."""

    def __init__(self, name: str, gpus: Sequence[int], jobs: Sequence[Job]) -> None:
        check_stages(name, jobs)
        self._machines = [[Gpu(at) for _ in range(count)] for at, count in enumerate(gpus)]
        self._gpus = [gpu for machine in self._machines for gpu in machine]
        self._largest = max(gpus)
        self._kept: dict[Live, list[Gpu]] = {}
        """The GPUs of each job that runs, or that waits with some of its GPUs."""
        self._running: dict[Live, None] = {}

    def decide(self, live: list[Live], now: float) -> Decision:
        """Decide which jobs run. Hosts come first."""
        live.sort(key=lambda one: (_is_guest(one), one.number))
        for one in live:
            if one not in self._running:
                self._invite(one) if _is_guest(one) else self._keep(one)
        held = [sum(bool(gpu.host or gpu.guests) for gpu in m) for m in self._machines]
        return Decision(
            terms={
                one: Terms(pace=self._pace(one), overhead_s=one.job.overhead_s)
                for one in live
                if one in self._running
            },
            held=held,
        )

    def leave(self, one: Live) -> None:
        """Release the GPUs of a finished job."""
        del self._running[one]
        for gpu in self._kept.pop(one):
            if _is_guest(one):
                gpu.guests.remove(one)
                gpu.load -= GUEST_LOAD
            else:
                gpu.host = None
                gpu.load -= HOST_LOAD

    def _keep(self, host: Live) -> None:
        """Keep as many of the host's missing GPUs as possible. The host starts when it has all of
        them.

        A host that is too large for the cluster keeps nothing.
        """
        if host.gpus > len(self._gpus):
            return
        kept = self._kept.setdefault(host, [])
        for gpu in self._on_one(host, kept) if host.gpus <= self._largest else self._whole(host):
            gpu.host = host
            gpu.load += HOST_LOAD - STARTED
            kept.append(gpu)
        if len(kept) == host.gpus:
            self._running[host] = None
            for gpu in kept:
                gpu.load += STARTED

    def _on_one(self, host: Live, kept: Sequence[Gpu]) -> list[Gpu]:
        """Return free GPUs of one machine for a host. If the host already keeps some GPUs, their
        machine is chosen. Otherwise the first machine with enough free GPUs is chosen or, if none
        has enough, the first with the most.
        """
        lacks = host.gpus - len(kept)
        if kept:
            return _free(self._machines[kept[0].machine])[:lacks]
        free = [_free(machine) for machine in self._machines]
        enough = (gpus for gpus in free if len(gpus) >= lacks)
        return next(enough, max(free, key=len))[:lacks]

    def _whole(self, host: Live) -> list[Gpu]:
        """Return GPUs of entirely free machines. The last machine must be entirely free even if the
        host needs only a part of it.
        """
        lacks = host.gpus - len(self._kept[host])
        taken: list[Gpu] = []
        for machine in self._machines:
            if len(taken) < lacks and len(_free(machine)) == self._largest:
                taken += machine
        return taken[:lacks]

    def _invite(self, guest: Live) -> None:
        room = [gpu for gpu in self._gpus if gpu.load < FULL]
        if len(room) < guest.gpus:
            return
        self._running[guest] = None
        self._kept[guest] = sorted(room, key=lambda gpu: gpu.load)[: guest.gpus]
        for gpu in self._kept[guest]:
            gpu.guests.append(guest)
            gpu.load += GUEST_LOAD

    def _pace(self, one: Live) -> float:
        """Return the seconds that a job needs per second of its work: 1 for a host, and for a guest
        without running hosts.
        """
        if not _is_guest(one):
            return 1.0
        mine = one.training
        slowest = mine.iteration_s
        for gpu in self._kept[one]:
            if gpu.host is not None and gpu.host in self._running:
                its = gpu.host.training
                slowest = max(slowest, guest_s(mine.stages_s, its.stages_s, its.iteration_s))
        return slowest / mine.iteration_s


def _is_guest(one: Live) -> bool:
    return one.job.priority < 0


def _free(machine: Sequence[Gpu]) -> list[Gpu]:
    return [gpu for gpu in machine if gpu.host is None]
