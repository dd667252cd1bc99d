"""The settings of a cluster's selector."""

from __future__ import annotations

from typing import Literal

import msgspec

from phalanx.scheduler.devices.ports import LAST_PORT

GPU_TYPE_LABEL = "ray.io/accelerator-type"


class SelectorSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The selector's settings, with OpenPAI's names and defaults.

    `candidate_factor`: the number of nodes that are candidates for each waiting task. A random
    candidate is chosen, so that independent processes rarely choose the same node.
    `min_dynamic_port`: the lowest port that may be picked. `allow_cpu_jobs_on_gpu_nodes`: whether
    work without GPUs may run on nodes with GPUs. `skip_tried`: whether nodes are skipped that
    lately refused the same request. `same_rack`: with `prefer`, a job stays in the racks where it
    already runs while these have room; with `require`, it always stays there. `rack_label`: the
    node label that names the node's rack. `pick`: with `random`, one of the candidates is taken at
    random; with `fullest`, always the fullest one, so that members of a gang share nodes more
    often. Raises ValueError for invalid numbers.
    """

    candidate_factor: int = 2
    min_dynamic_port: int = 2000
    allow_cpu_jobs_on_gpu_nodes: bool = True
    skip_tried: bool = True
    same_rack: Literal["ignore", "prefer", "require"] = "ignore"
    rack_label: str = "rack"
    pick: Literal["random", "fullest"] = "random"

    def __post_init__(self) -> None:
        if self.candidate_factor < 1:
            raise ValueError(f"candidate_factor must be 1 or more, not {self.candidate_factor}")
        if not 0 <= self.min_dynamic_port <= LAST_PORT:
            raise ValueError(
                f"min_dynamic_port must be 0 to {LAST_PORT}, not {self.min_dynamic_port}"
            )
        if not self.rack_label:
            raise ValueError("rack_label must be the name of a label, not empty")
