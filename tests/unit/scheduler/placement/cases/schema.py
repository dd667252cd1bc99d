"""The keys that a row of a table may have. Any other key is refused, and so is a value of another
type.

Amounts are written as people write them. A node without `available` is wholly free.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Amounts = dict[str, float]
Lists = dict[str, list[float]]
"""The amount on each instance of each resource."""
Range = tuple[int, int]

NOT_NOW = ("none", "not_placed")
"""Expectations that no node is chosen. They leave open whether some node could ever be
("unavailable") or not ("infeasible").
"""


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row that refuses unknown keys."""


class Row(Strict, tag_field="area", frozen=True, kw_only=True):
    """One case. `area` names the rule that it is about."""

    id: str
    note: str = ""


class Node(Strict, frozen=True, kw_only=True):
    total: Amounts
    available: Amounts | None = None
    labels: dict[str, str] = {}
    draining: bool = False


class AnyOf(Strict, frozen=True, kw_only=True):
    """An expectation: each choice gives one of these results."""

    any_of: list[str]


class Seen(Strict, frozen=True, kw_only=True):
    """An expectation: choices give no other results than these, and each of these is seen if there
    are many choices.
    """

    only: list[str]
    each_seen: Literal[True]


class Options(Strict, frozen=True, kw_only=True):
    """Options of the strategy DEFAULT, under Ray's names."""

    thr: float = 0.5
    k_abs: int = 1
    frac: float = 0.0
    avoid_gpu: bool = False
    preferred: str = "local"
    require_available: bool = False
    avoid_local: bool = False


Nodes = dict[str, Node]


# ---- one node for one request -------------------------------------------------------------------


class HybridRow(Row, tag="hybrid", frozen=True, kw_only=True):
    nodes: Nodes
    request: Amounts
    options: Options = Options()
    expect: str | AnyOf


class DrainingRow(HybridRow, tag="draining", frozen=True, kw_only=True):
    """The fields of `hybrid`, for nodes that drain."""


class TopKRow(Row, tag="hybrid_topk", frozen=True, kw_only=True):
    scores: dict[str, float]
    k: int
    expect: str | AnyOf


class UtilizationRow(Row, tag="utilization", frozen=True, kw_only=True):
    node: Node
    expect: float


class Fits(Strict, frozen=True, kw_only=True):
    feasible: bool
    available: bool


class FitRow(Row, tag="fit", frozen=True, kw_only=True):
    node: Node
    request: Amounts
    expect: Fits


class SequenceRow(Row, tag="sequence", frozen=True, kw_only=True):
    """Several decisions one after another. Each one takes resources that the next ones lack."""

    nodes: Nodes
    request: Amounts
    options: Options = Options()
    expect: list[str]


class SpreadStep(Strict, frozen=True, kw_only=True):
    request: Amounts
    options: Options = Options()
    expect: str


class SpreadRow(Row, tag="spread", frozen=True, kw_only=True):
    nodes: Nodes
    steps: list[SpreadStep]


class RandomRow(Row, tag="random", frozen=True, kw_only=True):
    nodes: Nodes
    request: Amounts
    repeat: int
    expect: str | Seen


class AffinityOptions(Strict, frozen=True, kw_only=True):
    soft: bool = False
    spill_on_unavailable: bool = False
    fail_on_unavailable: bool = False


class AffinityRow(Row, tag="node_affinity", frozen=True, kw_only=True):
    nodes: Nodes
    request: Amounts
    target: str
    options: AffinityOptions = AffinityOptions()
    expect: str


class LabelRow(Row, tag="label_selector", frozen=True, kw_only=True):
    nodes: Nodes
    request: Amounts
    label_selector: dict[str, str]
    fallback: list[dict[str, str]] = []
    expect: str


class Condition(Strict, frozen=True, kw_only=True):
    op: Literal["in", "not_in"]
    values: list[str]


class LabelTextRow(Row, tag="label_parse", frozen=True, kw_only=True):
    text: str
    expect: Condition | Literal["error"]


class LocalityRow(Row, tag="locality", frozen=True, kw_only=True):
    strategy: Literal["DEFAULT", "SPREAD"]
    bytes: dict[str, int]
    expect: str


# ---- bundles ------------------------------------------------------------------------------------

Strategy = Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"]


class Placed(Strict, frozen=True, kw_only=True):
    placed: int


class BundleRow(Row, tag="bundle", frozen=True, kw_only=True):
    nodes: Nodes
    bundles: list[Amounts]
    strategy: Strategy
    bundle_label_selector: list[dict[str, str]] = []
    soft_target: str | None = None
    occupied: list[str] = []
    expect: list[str] | str | Placed


class GroupsPerNode(Strict, frozen=True, kw_only=True):
    groups_per_node: dict[str, int]


class BundleSequenceRow(Row, tag="bundle_sequence", frozen=True, kw_only=True):
    nodes: Nodes
    bundles: list[Amounts]
    strategy: Strategy
    repeat: int
    expect: GroupsPerNode


class InDomain(Strict, frozen=True, kw_only=True):
    domain: str
    nodes: int
    one_bundle_per_node: bool


class BundleDomainRow(Row, tag="bundle_domain", frozen=True, kw_only=True):
    nodes: Nodes
    bundles: list[Amounts]
    strategy: Strategy
    domain_label: str
    expect: InDomain | str


class ScorerRow(Row, tag="scorer", frozen=True, kw_only=True):
    available: Amounts
    request: Amounts
    expect: float


class GroupAffinityRow(Row, tag="pg_affinity", frozen=True, kw_only=True):
    bundles: dict[str, str]
    """The node of each bundle, by number."""
    bundle_shape: Amounts
    available: dict[str, Amounts] = {}
    bundle_index: int = -1
    request: Amounts
    expect: str


# ---- amounts ------------------------------------------------------------------------------------


class InstanceStep(Strict, frozen=True, kw_only=True):
    request: Amounts | None = None
    free: Lists | None = None
    expect: Lists | Literal["none"] | None = None
    left: Lists | None = None


class InstancesRow(Row, tag="instances", frozen=True, kw_only=True):
    before: Lists
    steps: list[InstanceStep]


class GroupStep(Strict, frozen=True, kw_only=True):
    request: Amounts
    expect: Literal["ok", "none"]
    left: Lists | None = None


class GroupInstancesRow(Row, tag="pg_instances", frozen=True, kw_only=True):
    """`CPU_wild` is the amount of all bundles together, `CPU_1` that of the second bundle."""

    before: Lists
    steps: list[GroupStep]


class ArithmeticRow(Row, tag="instance_arith", frozen=True, kw_only=True):
    before: list[float]
    op: Literal["subtract", "add"]
    arg: list[float]
    expect: dict[str, list[float]]


class CreateRow(Row, tag="instance_create", frozen=True, kw_only=True):
    resources: Amounts
    expect: Lists


class SetRow(Row, tag="resource_set", frozen=True, kw_only=True):
    left: Amounts
    op: Literal["<=", "==", "+", "-"]
    right: Amounts
    expect: bool | Amounts


class StoreStep(Strict, frozen=True, kw_only=True):
    used_MiB: float
    available_MiB: float


class StoreRow(Row, tag="object_store", frozen=True, kw_only=True):
    total_MiB: float
    steps: list[StoreStep]


# ---- one node at work ---------------------------------------------------------------------------


class BlockedStep(Strict, frozen=True, kw_only=True):
    blocks: list[str] = []
    unblocks: list[str] = []
    available: Amounts
    in_group: Amounts = {}


class BlockedRow(Row, tag="blocked_in_get", frozen=True, kw_only=True):
    """`group`: the resources of a bundle that the node has in addition to its own. The tasks in
    `running_in_group` run in this bundle.
    """

    node: Amounts
    group: Amounts = {}
    running: dict[str, Amounts]
    running_in_group: dict[str, Amounts] = {}
    steps: list[BlockedStep]


class Granted(Strict, frozen=True, kw_only=True):
    granted: list[str]


class DispatchRow(Row, tag="dispatch", frozen=True, kw_only=True):
    node: Amounts
    running: dict[str, int]
    queue: list[str]
    request: Amounts
    expect: Granted


class Waits(Strict, frozen=True, kw_only=True):
    queued: bool
    worker_started: bool


class InfeasibleRow(Row, tag="infeasible", frozen=True, kw_only=True):
    nodes: Nodes
    request: Amounts
    expect: Waits


class Worker(Strict, frozen=True, kw_only=True):
    name: str
    used: int
    started: float = 0.0
    retriable: bool = False
    idle: bool = False
    owner: str = ""


class KilledByTime(Strict, frozen=True, kw_only=True):
    kill_order: list[str]
    retry: dict[str, bool]


class ByTimeRow(Row, tag="oom_by_time", frozen=True, kw_only=True):
    threshold: int
    buffer: int
    used: int
    workers: list[Worker]
    idle_bytes: int = 1 << 30
    expect: KilledByTime


class GoneRow(Row, tag="oom_by_owner", frozen=True, kw_only=True):
    """A row about a rule that the product does not have. It has the rule's name; see
    `placement.NOT_OURS`.
    """

    workers: Any = None
    expect: Any = None


class OldIdsRow(Row, tag="resource_ids_2020", frozen=True, kw_only=True):
    before: Any
    steps: Any


class OldSoftRow(Row, tag="soft_hard_2020", frozen=True, kw_only=True):
    nodes: Any
    request: Amounts
    constraint: str
    expect: Any


PlacementRow = (
    HybridRow | DrainingRow | TopKRow | UtilizationRow | FitRow | SequenceRow | SpreadRow
    | RandomRow | AffinityRow | LabelRow | LabelTextRow | LocalityRow | BundleRow
    | BundleSequenceRow | BundleDomainRow | ScorerRow | GroupAffinityRow | InstancesRow
    | GroupInstancesRow | ArithmeticRow | CreateRow | SetRow | StoreRow | BlockedRow | DispatchRow
    | InfeasibleRow | ByTimeRow | GoneRow | OldIdsRow | OldSoftRow
)  # fmt: skip


class PlacementTable(Strict, frozen=True, kw_only=True):
    version: Literal[1]
    cases: list[PlacementRow]


# ---- the selector -------------------------------------------------------------------------------


class SelectorConfig(Strict, frozen=True, kw_only=True):
    candidate_factor: int | None = None
    min_dynamic_port: int | None = None
    allow_cpu_jobs_on_gpu_nodes: bool | None = None
    skip_tried: bool | None = None
    same_rack: Literal["ignore", "prefer", "require"] | None = None


class MaskRow(Strict, frozen=True, kw_only=True):
    """`total` and `used` are masks of devices. `mask` is the mask of the chosen ones."""

    total: int
    used: int
    want: int
    mask: int
    derived: bool = False


class SelectorNode(Strict, frozen=True, kw_only=True):
    """`mem` in MB; `gpus` and `used_gpus` are masks of devices."""

    mem: int
    cpu: int
    gpus: int
    used_gpus: int = 0
    labels: list[str] = []
    gpu_type: str | None = None
    rack: str | None = None
    ports: list[Range] = []
    used_ports: list[Range] = []


class SelectorRequest(Strict, frozen=True, kw_only=True):
    mem: int
    cpu: int
    gpu: int = 0
    dyn_ports: int = 0
    static_ports: list[Range] = []
    reused_ports: list[Range] = []
    label: str | None = None
    gpu_type: str | None = None
    waiting: int = 1
    racks: list[str] = []


class SelectorExpect(Strict, frozen=True, kw_only=True):
    """`nodes` are in any order, `ranked` in packing order, `masks` are those of devices. A field
    that is given must match exactly.
    """

    nodes: list[str]
    ranked: list[str] | None = None
    masks: dict[str, int] | None = None
    overlap: list[Range] | None = None
    port_count: int | None = None
    dynamic_within: list[Range] | None = None


class SelectorStep(Strict, frozen=True, kw_only=True):
    add: dict[str, SelectorNode] = {}
    tried: dict[str, tuple[int, int, int]] = {}
    """mem, cpu and GPUs that were requested on a node without success."""
    request: SelectorRequest
    expect: SelectorExpect
    reserve: dict[str, tuple[int, int, int, int]] = {}
    """mem, cpu, GPUs and the mask of devices that are taken after the check."""


class Scenario(Strict, frozen=True, kw_only=True):
    id: str
    derived: bool = False
    config: SelectorConfig = SelectorConfig()
    job_total_gpu: int | None = None
    steps: list[SelectorStep]


class RangeRow(Strict, frozen=True, kw_only=True):
    op: Literal["coalesce", "intersect", "subtract"]
    a: list[Range]
    b: list[Range] = []
    out: list[Range]


class SelectorTable(Strict, frozen=True, kw_only=True):
    config: SelectorConfig
    gpu_mask_choice: list[MaskRow]
    scenarios: list[Scenario]
    ranges: list[RangeRow]


# ---- wiring -------------------------------------------------------------------------------------


class Machine(Strict, frozen=True, kw_only=True):
    """The cells that `nvidia-smi topo -m` and `topo -mp` print, one row per line."""

    numa: list[int]
    topo_m: list[str]
    topo_mp: list[str] | None = None


class WiringRow(Strict, frozen=True, kw_only=True):
    id: str
    machine: str
    free: list[int]
    k: int
    required: list[int] = []
    pack: list[int]
    pack_w: int
    note: str = ""


class WiringTable(Strict, frozen=True, kw_only=True):
    weights: dict[str, Any] = {}
    rule: str = ""
    machines: dict[str, Machine]
    cases: list[WiringRow]
