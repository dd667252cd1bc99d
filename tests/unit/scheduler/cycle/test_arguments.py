"""For every argument that a plugin or action declares, wrong values are refused, and some case has
another result without it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from tests.unit.scheduler.cycle.lines import cases, replay_text
from tests.unit.scheduler.cycle.test_tables import CASES, snapshot_of, written

from phalanx.errors import BatchFileError
from phalanx.scheduler.cycle.accepted import FOREIGN, Accepted, Kind
from phalanx.scheduler.cycle.aftermath import after
from phalanx.scheduler.cycle.config import ACTIONS
from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.registry import BUILT_IN, known_plugins

Path = tuple[str, ...]

ELSEWHERE = {
    "extender": "needs a server: test_extender",
    "tiresias": "tests/simulation",
    "predicates/predicate.CacheEnable": "answers are always kept, which changes no outcome",
    "preempt/topologyAwarePreemptWorkerNum": "one thread decides, which changes no outcome",
    "preempt/predicateErrorCacheEnable": "these actions ask each task for itself",
    "reclaim/predicateErrorCacheEnable": "these actions ask each task for itself",
    "backfill/predicateErrorCacheEnable": "these actions ask each task for itself",
    "tdm/tdm.evict.period": "needs several cycles: test_periods below",
    "rescheduling/interval": "needs several cycles: test_periods below",
    "chargeRetries": "says nothing of what is decided: test_cycle",
}


def leaves(accepted: Accepted, at: Path = ()) -> Iterator[tuple[Path, Kind]]:
    for name, kind in accepted.items():
        if isinstance(kind, Kind):
            yield (*at, name), kind
        else:
            yield from leaves(kind, (*at, name))


DECLARED = [
    pytest.param(owner, path, id=f"{owner}/{'/'.join(path)}")
    for owner, accepted in ({n: known_plugins()[n] or {} for n in BUILT_IN} | dict(ACTIONS)).items()
    for path, kind in leaves(accepted)
    if kind is not FOREIGN
    and owner not in ELSEWHERE
    and f"{owner}/{'/'.join(path)}" not in ELSEWHERE
    and path[-1] not in ELSEWHERE
]


def owners(config: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each plugin and action of a configuration with its arguments."""
    for tier in config["tiers"]:
        for plugin in tier["plugins"]:
            yield plugin["name"], plugin.get("arguments", {})
    yield from config.get("action_arguments", {}).items()


def matching(name: str, given: dict[str, Any]) -> list[str]:
    """Return the given keys that match a declared name. A name that ends with `*` matches all keys
    that begin with the part before the `*`.
    """
    return [k for k in given if k == name or (name.endswith("*") and k.startswith(name[:-1]))]


def without(given: Any, path: Path) -> bool:
    """Remove the argument at this path. Returns False if it is not there."""
    if path[0] == "[]":
        gone = [without(item, path[1:]) for item in given]
        return any(gone)
    keys = matching(path[0], given)
    if len(path) == 1:
        for key in keys:
            del given[key]
        return bool(keys)
    gone = [without(given[key], path[1:]) for key in keys]
    return any(gone)


@cache
def proven() -> frozenset[tuple[str, Path]]:
    """Return the arguments that matter: some case of the tables has another result without them."""
    out = set()
    for param in CASES:
        case: Any = param.values[0]
        for i, (owner, _) in enumerate(owners(case["config"])):
            accepted = ACTIONS.get(owner, {}) or known_plugins().get(owner) or {}
            for path, _ in leaves(accepted):
                if (owner, path) in out:
                    continue
                less = case | {"config": copy.deepcopy(case["config"])}
                if without(list(owners(less["config"]))[i][1], path):
                    try:
                        right = replay_text(written(less))[0].ok
                    except BatchFileError:
                        continue
                    if not right:
                        out.add((owner, path))
    return frozenset(out)


@pytest.mark.parametrize(("owner", "path"), DECLARED)
def test_some_case_needs_it(owner: str, path: Path) -> None:
    assert (owner, path) in proven()


USE = "use allocate | {plugin}({argument}={value})\ncase c\nqueue q\n"
WRONG = [
    ("sla", "sla-waiting-time", "600", "a duration"),
    ("sla", "sla-waiting-time", "soon", "a duration"),
    ("nodeorder", "leastrequested.weight", "1.5", "a whole number"),
    ("nodeorder", "leastrequested.weight", "[1]", "a whole number"),
    ("overcommit", "overcommit-factor.cpu", "much", "a number"),
    ("nodegroup", "strict", "perhaps", "true or false"),
    ("tdm", "tdm.revocable-zone.z", "10:00", "hours"),
    ("tdm", "tdm.evict.period", "60", "a duration"),
    ("usage", "thresholds", "80", "a mapping"),
    ("usage", "thresholds", "{cpu: hot}", "a number"),
    ("usage", "estimator", "{be_cpu: some}", "an amount"),
    ("deviceshare", "deviceshare.SchedulePolicy", "tight", "binpack or spread"),
    ("resource-strategy-fit", "resources", "{cpu: {type: Most}}", "MostAllocated"),
    ("rescheduling", "strategies", "[{name: none}]", "lowNodeUtilization"),
    ("binpack", "binpack.resources", "[a]", "text"),
    ("min-runtime", "queues", "{q: {reclaim: 5}}", "a duration"),
    ("virtual-clusters", "cells", "{q: 2}", "one level with a number"),
    ("virtual-clusters", "cells", "{q: {node: 1, rack: 1}}", "one level with a number"),
    ("virtual-clusters", "cells", "{q: {racks: 1}}", "did you mean 'rack'"),
    ("virtual-clusters", "cells", "{q: {node: some}}", "a whole number up to 1000000, not 'some'"),
    ("virtual-clusters", "levels", "{switch: 1.5}", "2 to 256, or the label of a group of nodes"),
    ("virtual-clusters", "levels", "{node: 4}", "node is a level already"),
    ("virtual-clusters", "levels", "{s: 2, t: 3}", "t (3 cards) is not a multiple of s (2)"),
    ("virtual-clusters", "levels", "{s: 2, t: 2}", "s and t have 2 cards both"),
]


@pytest.mark.parametrize(("plugin", "argument", "value", "right"), WRONG)
def test_a_wrong_kind_is_refused_with_its_line(
    plugin: str, argument: str, value: str, right: str
) -> None:
    case = cases(USE.format(plugin=plugin, argument=argument, value=value))[0]
    text = written(case)
    with pytest.raises(BatchFileError) as caught:
        replay_text(text, "f.yaml")
    assert right in str(caught.value)
    line = next(i for i, x in enumerate(text.splitlines(), 1) if x.strip().startswith(argument))
    assert line <= int(str(caught.value).split(":")[1]) <= line + 3


def test_a_wrong_argument_of_an_action_is_refused() -> None:
    with pytest.raises(BatchFileError, match="maxDomains is a whole number"):
        snapshot_of(cases("use gangpreempt(maxDomains=many) | gang\ncase c\n")[0])


def test_what_nobody_reads_is_told_of() -> None:
    use = "use allocate(speed=1) | {}\ncase c\n"
    plugins = "gang(loud=true), capacity(capacity.DynamicResourceAllocationEnable=true)"
    plan = run_cycle(snapshot_of(cases(use.format(plugins))[0]))
    assert [w.split(";")[0] for w in plan.warnings] == [
        "gang has no argument 'loud'",
        "capacity: capacity.DynamicResourceAllocationEnable has no meaning here",
        "allocate has no argument 'speed'",
    ]


PERIODS = """
use shuffle | tdm(tdm.revocable-zone.z=10:00-12:00; tdm.evict.period=2m)
case tdm 119 121 {last_acted: {tdm: 50400}}
node b 8c 8G volcano.sh/revocable-zone=z
queue q
gang h q
task y h 1c 1G @b x3
use shuffle | tdm(tdm.revocable-zone.z=10:00-12:00)
case tdm 59 60 {last_acted: {tdm: 50400}}
node b 8c 8G volcano.sh/revocable-zone=z
queue q
gang h q
task y h 1c 1G @b x3
use shuffle | rescheduling(interval=1h)
case rescheduling 3599 3600 {last_acted: {rescheduling: 50400}}
node a 10c 10G {usage: {cpu: 90, memory: 10}}
node b 10c 10G {usage: {cpu: 1, memory: 1}}
queue q
gang h q
task y h 1c 1G @a
use shuffle | rescheduling
case rescheduling 299 300 {last_acted: {rescheduling: 50400}}
node a 10c 10G {usage: {cpu: 90, memory: 10}}
node b 10c 10G {usage: {cpu: 1, memory: 1}}
queue q
gang h q
task y h 1c 1G @a
"""


@pytest.mark.parametrize("case", cases(PERIODS), ids=lambda c: c["name"])
def test_periods(case: dict[str, Any]) -> None:
    plugin, early, late = case["name"].split()
    plans = [run_cycle(snapshot_of(case | {"now": 50400.0 + float(x)})) for x in (early, late)]
    assert [(p.acted, len(p.evicted)) for p in plans] == [((), 0), ((plugin,), 1)]
    snapshot = snapshot_of(case | {"now": 50400.0 + float(late)})
    again = run_cycle(after(snapshot, plans[1]))
    assert (again.acted, again.evicted) == ((), ())


def test_at_most_one_way_of_sharing_devices() -> None:
    both = "deviceshare.GPUSharingEnable=true; deviceshare.VGPUEnable=true"
    with pytest.raises(BatchFileError, match="at most one of"):
        snapshot_of(cases(f"use allocate | deviceshare({both})\ncase c\n")[0])


def test_an_empty_label_of_racks_is_the_usual_one() -> None:
    """An empty label counts as not given. As with other values out of range, no cycle ends because
    of it.
    """
    text = (
        "use allocate | selector(rack_label={}), gang | predicates\ncase c\nnode n 1c 1G\nqueue q\n"
    )
    text += "gang a q min=1\ntask a a 1c 1G\nbinds a:n\n"
    (case,) = cases(text.format("rack"))
    plugin = case["config"]["tiers"][0]["plugins"][0]
    plugin["arguments"]["rack_label"] = ""
    assert replay_text(written(case))[0].ok
