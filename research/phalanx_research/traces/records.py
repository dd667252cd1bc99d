"""The records of a node and of a job in a trace. They are the same for all formats of files."""

from __future__ import annotations

from dataclasses import dataclass

from phalanx.errors import PhalanxError
from phalanx.scheduler.placement.fragmentation.shape import Shape


class TraceError(PhalanxError, ValueError):
    """Raised for a trace that cannot be read. The text names the file, the line and the reason."""

    def __init__(self, source: str, line: int, reason: str) -> None:
        super().__init__(source, line, reason)
        self.source = source
        self.line = line
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.source}, line {self.line}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceNode:
    """A machine: its CPUs in thousandths of a core, its memory in MiB, its GPUs and their model."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int = 0
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """A job of `members` equal pods; amounts are those of one pod.

    Times are seconds since the trace's beginning; None if the trace lacks them. `gpu_milli` is
    thousandths of each GPU. `models` are the suitable GPU models; empty: any model. `workload`,
    `iterations`, `iteration_ms`, `stages_ms` and `stated_s` describe training jobs, if known.
    `stages_ms` are the times in which an iteration prepares data, computes and uses the network.
    `stated_s` is the run time that the trace states.
    """

    name: str
    cpu_milli: int = 0
    memory_mib: int = 0
    num_gpu: int = 0
    gpu_milli: int = 0
    models: tuple[str, ...] = ()
    members: int = 1
    submitted_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    duration_s: float | None = None
    queue: str = "default"
    priority: int = 0
    outcome: str = ""
    workload: str = ""
    iterations: int = 0
    iteration_ms: float = 0.0
    stages_ms: tuple[float, ...] = ()
    stated_s: float | None = None
    movable: str = ""
    """The time between two saves of the job's work, such as "10m", if the job may be moved; "true"
    if it saves nothing.
    """

    @property
    def shape(self) -> Shape:
        """The job's request, in the form for the placement on GPU nodes."""
        return Shape(self.cpu_milli, self.memory_mib, self.num_gpu, self.gpu_milli, self.models)
