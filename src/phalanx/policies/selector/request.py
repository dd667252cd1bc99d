"""What is asked of the selector, its settings, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from phalanx.policies.selector.node import NOTHING, Amounts
from phalanx.resources.ports import Ports

FilterName = Literal[
    "label", "gpu_type", "cpu_job_on_gpu_node", "resources", "tried", "rack", "ports"
]
"""The filters in their order. `tried`: room there is, but only where it was tried in vain."""

_LONGEST_WORD = 256


@dataclass(frozen=True, kw_only=True)
class SelectorConfig:
    """`candidate_factor`: candidates kept for each waiting task, so that choosers that do not
    know each other rarely collide. `min_dynamic_port`: no port below it is picked.
    `same_rack`: `prefer` keeps to the racks a job is in while they have room, `require` always.
    """

    candidate_factor: int = 2
    min_dynamic_port: int = 2000
    allow_cpu_jobs_on_gpu_nodes: bool = True
    skip_tried: bool = True
    same_rack: Literal["ignore", "prefer", "require"] = "ignore"


@dataclass(frozen=True, kw_only=True)
class SelectorRequest:
    """`amounts.mask` 0 leaves the devices to the selector. `gpu_type`: `A,B` is any of them.

    `waiting`: tasks of the role that wait, this one included. `job_gpus`: what the whole job asks
    for. `reused_ports`: those an earlier task of the role got. `racks`: where the job is already.

    Raises ValueError for labels and types that are too long or hold spaces, for amounts below
    zero, and for a mask that names another number of GPUs than is asked for.
    """

    amounts: Amounts = NOTHING
    dynamic_ports: int = 0
    static_ports: Ports = field(default_factory=Ports)
    reused_ports: Ports = field(default_factory=Ports)
    label: str | None = None
    gpu_type: str | None = None
    waiting: int = 1
    job_gpus: int | None = None
    racks: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for what, word in (("label", self.label), ("GPU type", self.gpu_type)):
            if word is not None and (len(word) > _LONGEST_WORD or " " in word.strip()):
                raise ValueError(
                    f"a {what} is at most {_LONGEST_WORD} characters without spaces: {word!r}"
                )
        asked = self.amounts
        if asked.mask and asked.mask.bit_count() != asked.gpus:
            raise ValueError(
                f"{asked.gpus} GPUs are asked for, but the mask {asked.mask:#x} names "
                f"{asked.mask.bit_count()}"
            )
        if min(asked.memory_mb, asked.cpu, asked.gpus, self.dynamic_ports) < 0 or self.waiting < 1:
            raise ValueError(f"amounts are 0 or more and at least one task waits: {self}")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One node that would do, and the mask of the devices to take there."""

    node: str
    mask: int


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Candidates in packing order, best first; empty when the request may go out unbound.

    `ports`: static and dynamic ones, free on every candidate. `overlap`: all ports that are.
    `turned_away`: how many nodes each filter turned away.
    """

    candidates: tuple[Candidate, ...] = ()
    ports: Ports = field(default_factory=Ports)
    overlap: Ports = field(default_factory=Ports)
    turned_away: Mapping[FilterName, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class NotSelected:
    """Nothing will do now, and the request must not go out unbound: try again later."""

    lacking: Literal["gpu_type", "ports"]
    turned_away: Mapping[FilterName, int]

    def __str__(self) -> str:
        told = ", ".join(f"{name} {count}" for name, count in self.turned_away.items())
        what = "nodes of the GPU type" if self.lacking == "gpu_type" else "common ports"
        return f"not enough {what}; nodes turned away: {told or 'none, there are none'}"
