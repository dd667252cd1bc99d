"""`phalanx simulate --arrival order`: chooses a policy, runs it, and makes its part of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from phalanx.errors import BatchFileError
from phalanx.scheduler.cycle.config import parse_volcano
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.placement.fragmentation.catalogue import RECOMMENDED, maker_of
from phalanx_research.arrival.experiment import ArrivalRun, run_arrivals
from phalanx_research.arrival.workload import draw_workload
from phalanx_research.report.run import Curve, HeatNode, ReportRun
from phalanx_research.timed import CLASSIC, WorkloadError
from phalanx_research.traces.records import TraceJob, TraceNode

PLUGIN = "fragmentation"
ARGUMENT = "fragmentation.policy"


def usable_policy(choice: str) -> str:
    """Return the name of a node policy.

    `choice` is that name, or the path of a scheduler configuration (.yaml, .yml) whose plugin
    `fragmentation` names the policy. Raises UnknownPolicyError, WorkloadError for a policy of jobs
    over time, and BatchFileError for a faulty file or one without the plugin.
    """
    if choice.lower() in CLASSIC:
        raise WorkloadError(f"{choice} orders waiting jobs; use it with --arrival time")
    name = choice
    path = Path(choice)
    if path.suffix in (".yaml", ".yml"):
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise BatchFileError(error.strerror or str(error), choice) from error
        config = parse_volcano(text, known_plugins(), choice)
        options = [p for tier in config.tiers for p in tier if p.name == PLUGIN]
        if not options:
            raise BatchFileError(
                f"no plugin {PLUGIN!r} in any tier: --arrival order places pods by it; use "
                "--arrival time for the whole session",
                choice,
            )
        name = str(options[0].arguments.get(ARGUMENT, RECOMMENDED))
    maker_of(name)
    return name


def run_policy(
    nodes: Sequence[TraceNode],
    jobs: Sequence[TraceJob],
    label: str,
    policy: str,
    inflate: float,
    seed: int,
    progress: Callable[[float, float], None],
) -> ReportRun:
    """Draw the workload, run one policy on it, and return the figures and curves for the page."""
    workload = draw_workload(nodes, jobs, inflate=inflate, seed=seed)
    return shown(run_arrivals(workload, policy, seed=seed, progress=progress), label)


def shown(run: ArrivalRun, label: str) -> ReportRun:
    """Return a run in the form that the page and the command show."""
    x = [float(v) for v in run.arrived_pct]
    return ReportRun(
        name=label,
        figures=run.figures(),
        curves={
            "allocation": Curve(x=x, y=run.alloc_pct.tolist()),
            "fragmentation": Curve(x=x, y=run.frag_pct.tolist()),
        },
        heat=[
            HeatNode(name=name, model=model, used_pct=[100 - v / 10 for v in left if v >= 0])
            for name, model, left in zip(
                run.node_names, run.node_models, run.gpu_left.tolist(), strict=True
            )
        ],
    )
