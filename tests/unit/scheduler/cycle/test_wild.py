"""A cycle ends with a plan or a BatchFileError, for any random configuration or snapshot."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.effort import examples
from tests.unit.scheduler.cycle.lines import replay_text

from phalanx.errors import BatchFileError
from phalanx.scheduler.cycle.accepted import Accepted, Kind
from phalanx.scheduler.cycle.config import ACTIONS, SWITCHES
from phalanx.scheduler.cycle.reading import read_snapshots
from phalanx.scheduler.cycle.registry import BUILT_IN, known_plugins
from phalanx.scheduler.cycle.writing import as_data
from phalanx.scheduler.forecast.inquiry import explain_snapshot

VALUES: list[Any] = [
    -3, -1, 0, 1, 2, 10, 200, 0.5, 1.2, 1e12, True, False, "", "10m", "600", "x", "1Gi",
    "10:00-12:00", "25:00-1", "cpu,x.com/a", "*", "MostAllocated", "LeastAllocated", "binpack",
    "spread", "true", "80%", "lowNodeUtilization", None,
]  # fmt: skip


def arguments_for(accepted: Accepted) -> st.SearchStrategy[dict[str, Any]]:
    """Draw some of the declared arguments, with sensible or odd values of the right type."""
    members: dict[str, st.SearchStrategy[Any]] = {}
    for name, kind in accepted.items():
        key = name.replace("*", "cpu")
        if name == "[]" or (key != name and key in accepted):
            continue
        if isinstance(kind, Kind):
            members[key] = st.sampled_from([v for v in VALUES if v is None or kind.good(v)])
        elif "[]" in kind and not isinstance(kind["[]"], Kind):
            members[key] = st.lists(arguments_for(kind["[]"]), max_size=2)
        else:
            members[key] = arguments_for(kind)
    return st.fixed_dictionaries({}, optional=members)


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(sorted(BUILT_IN)), max_size=7, unique=True))
    plugins: list[dict[str, Any]] = []
    for name in names:
        plugin = {"name": name, "arguments": draw(arguments_for(known_plugins()[name] or {}))}
        if draw(st.booleans()):
            plugin["enabled"] = draw(st.lists(st.sampled_from(SWITCHES), unique=True))
        plugins.append(plugin)
    cut = draw(st.integers(0, len(plugins)))
    actions = draw(st.lists(st.sampled_from(list(ACTIONS)), min_size=1, max_size=5, unique=True))
    return {
        "actions": actions,
        "tiers": [{"plugins": plugins[:cut]}, {"plugins": plugins[cut:]}],
        "action_arguments": {a: draw(arguments_for(ACTIONS[a])) for a in actions},
        "compat": draw(st.sampled_from(["volcano", "none"])),
    }


AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "gpu", "pods", "x.com/a", "rdma", "volcano.sh/vgpu-memory"]),
    st.sampled_from([0, 0.1, 1, 2, 5, 1e9, 1e13]),
    max_size=4,
)
NAMES = st.sampled_from("abc")
TEXTS = st.dictionaries(
    st.sampled_from(["zone", "volcano.sh/revocable-zone", "volcano.sh/nodegroup-name", "part"]),
    st.sampled_from(["", "a", "7", "x/y"]),
    max_size=2,
)
NOTES = st.dictionaries(
    st.sampled_from(
        [
            "volcano.sh/preemptable",
            "volcano.sh/numa-topology-policy",
            "volcano.sh/resource-strategy-scoring-type",
            "volcano.sh/resource-strategy-weight",
            "volcano.sh/cooldown-time",
            "volcano.sh/jdb-max-unavailable",
            "volcano.sh/task-topology-affinity",
            "volcano.sh/nodegroup-resource-limits",
            "sla-waiting-time",
        ]
    ),
    st.sampled_from(
        ["", "true", "single-numa-node", "MostAllocated", '{"cpu": 1}', "[1]", "5m", "40%", "r,r"]
    ),
    max_size=3,
)
TIMES = st.sampled_from([0, 5, 1e6])
TOPOLOGY = st.fixed_dictionaries(
    {"mode": st.sampled_from(["hard", "soft"])},
    optional={"highest_tier_allowed": st.integers(-1, 3)},
)


def rows(required: dict[str, Any], optional: dict[str, Any], most: int) -> Any:
    row = st.fixed_dictionaries({"name": NAMES, **required}, optional=optional)
    return st.lists(row, max_size=most, unique_by=lambda r: r["name"])


@st.composite
def snapshots(draw: st.DrawFn) -> dict[str, Any]:
    nodes = draw(
        rows(
            {"capacity": AMOUNTS},
            {
                "labels": TEXTS,
                "usage": st.fixed_dictionaries({"cpu": st.integers(0, 100)}),
                "numa": st.lists(AMOUNTS, max_size=2) | st.just([{"cpu": 1}] * 10),
                "devices": st.just([{"memory": 100}, {"memory": 0}]),
                "images": st.just({"i": 1e9}),
            },
            3,
        )
    )
    quotas = dict.fromkeys(("capability", "deserved", "guarantee"), AMOUNTS)
    queues = rows(
        {},
        {
            **quotas,
            "weight": st.integers(0, 3),
            "parent": st.sampled_from(["", "root", "a"]),
            "cohort": NAMES,
            "hierarchy_path": st.sampled_from(["", "root/a", "root/a/b"]),
            "hierarchy_weights": st.sampled_from(["", "1/2", "x"]),
            "annotations": NOTES,
        },
        3,
    )
    groups = rows(
        {"queue": NAMES},
        {
            "minMember": st.integers(-1, 4),
            "minResources": AMOUNTS,
            "priority": st.integers(0, 2),
            "phase": st.sampled_from(["Pending", "Inqueue", "Running", "Unknown"]),
            "annotations": NOTES,
            "network_topology": TOPOLOGY,
            "run_time_s": TIMES,
            "started": TIMES,
            "subgroup_policies": st.just(
                [{"name": "s", "match_label_keys": ["part"], "subgroup_size": 2}]
            ),
        },
        3,
    )
    tasks = draw(
        st.lists(
            st.fixed_dictionaries(
                {"podgroup": NAMES, "request": AMOUNTS},
                optional={
                    "role": st.sampled_from(["r", "s"]),
                    "labels": TEXTS,
                    "annotations": NOTES,
                    "started": TIMES,
                    "limits": AMOUNTS,
                    "images": st.just(["i"]),
                    "priority": st.integers(0, 3),
                    "preemptable": st.booleans(),
                },
            ),
            max_size=8,
        )
    )
    for i, task in enumerate(tasks):
        task["name"] = f"t-{i}"
        if nodes and draw(st.booleans()):
            task["node"] = draw(st.sampled_from([n["name"] for n in nodes]))
            task["phase"] = draw(st.sampled_from(["Running", "Pending", "Releasing", "Failed"]))
    names = [n["name"] for n in nodes]
    high = draw(st.sampled_from([2, 10**9]))
    nets = [
        {"name": "d", "tier": 1, "nodes": names},
        {"name": "e", "tier": high, "children": ["d"]},
    ]
    return {
        "config": draw(configs()),
        "nodes": nodes,
        "queues": [*draw(queues), {"name": "root"}],
        "podgroups": draw(groups),
        "tasks": tasks,
        "hypernodes": nets if draw(st.booleans()) else [],
        "now": draw(TIMES),
        "seed": draw(st.integers(0, 5)),
    }


TOGETHER = ("at most one of", "levels: ", "cells: ")
"""Texts in faults that are not in a single argument, but in the combination of several."""
BRIEF = (Phase.explicit, Phase.reuse, Phase.generate)
"""The phases without shrinking, which takes minutes for a case of this size. The seed reproduces
the case.
"""


@settings(max_examples=examples(100), phases=BRIEF)
@given(snapshots())
def test_a_cycle_ends(case: dict[str, Any]) -> None:
    text = yaml.safe_dump(case, sort_keys=False)
    try:
        outcomes = replay_text(text, cycles=2)
    except BatchFileError as e:
        assert any(words in str(e) for words in TOGETHER), "all else is of the right kind"
        return
    snapshot = outcomes[0].snapshot
    explain_snapshot(snapshot)
    assert read_snapshots(json.dumps(as_data(snapshot)), known_plugins()) == (snapshot,)
