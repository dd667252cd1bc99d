"""Listings that people see less often than those in `test_listings`: cycles, priorities, reports,
steps, comparisons, the states of tasks and objects, findings, the configuration and licenses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from tests.unit.dashboard.world import GIB, NOW, node

from phalanx.cli.accounting_view import report_text, steps_text
from phalanx.cli.comparison import comparison_text
from phalanx.cli.config import values_text
from phalanx.cli.cycles import cycle_text, cycles_text
from phalanx.cli.debug import waiting_text
from phalanx.cli.doctor import checks_text
from phalanx.cli.health import health_text
from phalanx.cli.node_names import NodeNames
from phalanx.cli.reservations import licenses_text
from phalanx.cli.shares import priority_text
from phalanx.cli.state import memory_text, rows_text, summary_text
from phalanx.model.rows.cycles import CycleInfo, EvictedInfo, PlacedInfo, RefusedInfo
from phalanx.model.rows.reservations import LicenseInfo
from phalanx.model.steps import Step
from phalanx.observe.accounting.questions import BOTH, UsageRow
from phalanx.observe.accounting.sums import HourSum
from phalanx.observe.health import BAD, LOOK, WELL, Finding, Health
from phalanx.observe.machine_checks import Check
from phalanx.observe.state.columns import COLUMNS
from phalanx.runtime.os.debugging import Breakpoint
from phalanx.scheduler.cycle.waiting import WaitingGroup
from phalanx.scheduler.forecast.what_if import Comparison, Start

LONG = "llama-pretrain-with-a-long-name"
NODES = [node(1, hostname="gpu-1"), node(2, hostname="gpu-2")]
FIRST = NODES[0].node_id
NAMES = NodeNames(NODES)


def cycle(number: int, **fields: Any) -> CycleInfo:
    lists: dict[str, list[Any]] = {"placed": [], "evicted": [], "promised": [], "left": []}
    known: dict[str, Any] = {
        "number": number, "at": NOW, "repeats": 0, "took_s": 0.0123, "read_s": 0.0011,
        "actions": {"allocate": 0.004, "preempt": 0.003, "reclaim": 0.002, "backfill": 0.001},
        "may_evict": True, "considered": 7, "warnings": [], **lists,
    }  # fmt: skip
    found = known | fields
    counts = {name: len(found[name]) for name in lists}
    return CycleInfo(**{"counts": counts, **found})


def cycles() -> str:
    return cycles_text([cycle(1, repeats=11), cycle(2, left=["default/waits"])])


def one_cycle() -> str:
    placed = PlacedInfo(
        gang=f"default/{LONG}", queue="lab", members=8, nodes=[FIRST, NODES[1].node_id],
        node_count=2, first=FIRST, among=9, scores={"binpack": 12.5},
    )  # fmt: skip
    gone = EvictedInfo(
        gang="default/low", queue="lab", members=2, action="preempt", claimant="default/high"
    )
    refused = RefusedInfo(
        gang="default/waits", plugin="capacity", code="queue-quota",
        sentence="queue lab may hold at most 8 GPU, of which 8 are held",
    )  # fmt: skip
    now = cycle(
        2, placed=[placed], evicted=[gone], promised=["default/high"],
        left=["default/waits", "ml/other"], refused=[refused],
    )  # fmt: skip
    return cycle_text([cycle(1, left=["default/waits"]), now], {}, NAMES)


def priority() -> str:
    factors = {"shares": 3.0, "use": 7.2e6, "use_part": 0.25, "rank": 3.0, "of": 3.0}
    rows = [
        WaitingGroup(
            podgroup=f"default/{name}", queue="lab", user=user, position=position, priority=0,
            waited_s=60.0 * position, factors=factors,
        )
        for position, (name, user) in enumerate([(LONG, "alice"), ("eval", "bob")], start=1)
    ]  # fmt: skip
    return priority_text(rows)


def report() -> str:
    one = HourSum(
        attempts=12_345, completed=12_000, cpu_s=7.2e6, cpu_used_s=3.6e6, cpu_known_s=7.2e6,
        gpu_s=3.6e6, gpu_known_s=3.6e6, gpu_used_s=9e5, gpu_idle_s=1.8e6, waits={3: 10},
    )  # fmt: skip
    rows = [UsageRow(user=user, queue="lab", sum=one) for user in ("alice", "bob")]
    return report_text(rows, BOTH)


def steps() -> str:
    known: dict[str, Any] = {
        "namespace": "default", "submitted": NOW - 90, "user": "alice", "queue": "lab",
        "command": "python train.py", "tasks": 8, "nodes": ("gpu-1",), "started": NOW - 60,
    }  # fmt: skip
    rows = [
        Step(job=LONG, number=0, name="prepare", state="COMPLETED", exit_code=0, ended=NOW - 30,
             cpu_s=12.5, memory_max=2 * GIB, **known),
        Step(job=LONG, number=1, name="python", **known),
    ]  # fmt: skip
    return steps_text(rows, NOW)


def comparison() -> str:
    starts = (
        Start(podgroup=f"default/{LONG}", queue="lab", before_s=6_780.0, after_s=0.0),
        Start(podgroup="ml/other", queue="ml", before_s=None, after_s=3_600.0, is_new=True),
    )
    return comparison_text(Comparison(starts=starts, stopped=("default/runs",)))


def task(number: int, **fields: Any) -> dict[str, Any]:
    known = {
        "task_id": f"{number:048x}", "name": "train_one_epoch", "state": "FINISHED",
        "attempt_number": 0, "type": "NORMAL_TASK", "job_id": "01000000", "node_id": FIRST,
        "worker_pid": 4_242, "error_type": None,
    }  # fmt: skip
    return known | fields


def tasks() -> str:
    columns = [one.name for one in COLUMNS["tasks"] if not one.is_detail and one.name in task(1)]
    failed = task(2, state="FAILED", error_type="TASK_EXECUTION_EXCEPTION", node_id=None)
    return rows_text(columns, [task(1), failed], NAMES)


def memory() -> str:
    store = {
        "node_id": FIRST, "objects": 3, "shared_bytes": GIB, "capacity_bytes": 8 * GIB,
        "pinned_bytes": 0.0, "kept_bytes": 0.0, "spilled_objects": 0, "spilled_bytes": 0.0,
    }  # fmt: skip
    held = {
        "object_id": f"{7:056x}", "object_size": int(GIB), "reference_type": "LOCAL_REFERENCE",
        "type": "DRIVER", "pid": 4_242, "node_id": FIRST, "task_status": "FINISHED",
        "call_site": "/home/alice/train.py:123 in load",
    }  # fmt: skip
    return memory_text([store], 12, [held], [], NAMES)


def summary_of_tasks() -> str:
    groups = {
        name: {"type": kind, "state_counts": counts}
        for name, kind, counts in (
            ("train_one_epoch", "NORMAL_TASK", {"FINISHED": 1_234, "FAILED": 5, "RUNNING": 64}),
            ("Counter.__init__", "ACTOR_CREATION_TASK", {"FINISHED": 1}),
        )
    }
    totals = {"total_tasks": 1_303, "total_actor_tasks": 0, "total_actor_scheduled": 1}
    return summary_text("tasks", {"summary": groups, **totals})


def summary_of_actors() -> str:
    groups = {"Counter": {"state_counts": {"ALIVE": 1}}}
    return summary_text("actors", {"summary": groups, "total_actors": 1})


def summary_of_objects() -> str:
    one = {
        "total_objects": 25, "total_size_mb": 19.07, "total_num_workers": 5, "total_num_nodes": 1,
        "task_state_counts": {"FINISHED": 17, "SUBMITTED_TO_WORKER": 4, "PENDING_ARGS_AVAIL": 4},
        "ref_type_counts": {"LOCAL_REFERENCE": 17, "USED_BY_PENDING_TASK": 4},
    }  # fmt: skip
    groups = {"disabled": one, "/home/alice/experiments/2026/train.py:123 in load_shard": one}
    return summary_text("objects", {"summary": groups, "total_objects": 50, "total_size_mb": 38.14})


def of_health() -> str:
    findings = [
        Finding(what="head", state=WELL, said="10.0.0.1:6380, for 3d4h; it knows 2 nodes, 1 actor"),
        Finding(what="loop", state=LOOK, said="its largest lag since the last question was 2 s"),
        Finding(what="head", state=BAD, said="no new work is taken, because the disk is full"),
    ]
    requests = [("ListWaiting", 12, 0.5174), ("GetNews", 100_000, 95.0), ("Stop", 0, 0.0)]
    return health_text(Health(state=BAD, findings=findings, requests=requests, refused=None))


def of_doctor() -> str:
    return checks_text(
        [
            Check(what="Python", state=WELL, said="3.11"),
            Check(
                what="control groups",
                state=LOOK,
                said="none: memory limits are watched twice a second",
                cure="Run the node as a service of systemd with Delegate=yes, or as a container "
                "with a writable /sys/fs/cgroup.",
            ),
        ]
    )


def configuration() -> str:
    machines = {f"gpu-{number}": "/var/lib/phalanx" for number in range(4)}
    return values_text(
        [
            ("start.head", False, "default"),
            ("start.object_store_memory", None, "default"),
            ("start.labels", machines, "/etc/phalanx/config.toml:12"),
        ]
    )


def of_debug() -> str:
    first = Breakpoint(
        pid=4_242,
        name="train_one_epoch_of_the_model",
        file="/home/alice/experiments/2026/language/train.py",
        line=123,
        since=NOW - 6_780,
        socket="",
    )
    second = msgspec.structs.replace(first, pid=5, name="Counter.add", since=NOW - 5)
    return waiting_text([first, second], NOW)


def of_licenses() -> str:
    holders = {f"default/{LONG}": 2, "ml/eval": 1, "ml/sweep": 1}
    return licenses_text(
        [
            LicenseInfo(name="matlab", total=4, held=4, holders=holders, waiting=2),
            LicenseInfo(name="a-license-with-a-long-name", total=1, held=0, holders={}, waiting=0),
        ]
    )


TABLES: dict[str, Callable[[], str]] = {
    "cycles": cycles,
    "cycle": one_cycle,
    "priority": priority,
    "report": report,
    "steps": steps,
    "what-if": comparison,
    "tasks": tasks,
    "memory": memory,
    "summary-tasks": summary_of_tasks,
    "summary-actors": summary_of_actors,
    "summary-objects": summary_of_objects,
    "health": of_health,
    "doctor": of_doctor,
    "config": configuration,
    "debug": of_debug,
    "licenses": of_licenses,
}
