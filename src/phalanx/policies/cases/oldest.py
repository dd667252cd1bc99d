"""Cases about the oldest rules: numbered devices from the back, and demands that may be broken."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from phalanx.policies.cases.cluster import amounts, units
from phalanx.policies.cases.compare import (
    NO_NODE,
    Case,
    Finding,
    Findings,
    Unusable,
    equal,
    need,
)
from phalanx.policies.node_table import NodeState
from phalanx.policies.soft_demand import SoftDemand, least_broken
from phalanx.resources.numbered_ids import NumberedIds
from phalanx.resources.quantities import from_units


def resource_ids(case: Case) -> Findings:
    """Devices taken and given back, step by step."""
    free = _ids(need(case, "before"))
    for at, step in enumerate(need(case, "steps")):
        what = f"step {at + 1}"
        taken = NumberedIds()
        if "acquire" in step:
            amount = units(step["acquire"])
            if not free.contains(amount):
                agrees = any(
                    key in step and (step[key] in NO_NODE or step[key] == [])
                    for key in ("expect", "ids", "id")
                )
                yield Finding(what=what, expected=step, got="none", agrees=agrees)
                continue
            taken, free = free.acquire(amount)
        elif "release" in step:
            free = free.release(_returned(step["release"]))
        elif "contains" in step:
            yield equal(what, need(step, "expect"), free.contains(units(step["contains"])))
            continue
        elif "increase" in step:
            first = max([*free.whole, *(number for number, _ in free.shares)], default=-1) + 1
            free = free.increase(tuple(range(first, first + step["increase"])))
        elif "decrease" in step:
            free = free.decrease(step["decrease"])
        else:
            raise Unusable(f"{what} neither acquires nor releases: {step!r}")
        numbers = [*taken.whole, *(number for number, _ in taken.shares)]
        got = {
            "ids": numbers,
            "id": numbers[0] if numbers else None,
            "whole": list(free.whole),
            "fractional": [[number, from_units(left)] for number, left in free.shares],
            "total": from_units(free.units()),
        }
        expected = {key: step[key] for key in step if key in got}
        yield equal(what, expected, {key: got[key] for key in expected})


def soft_hard(case: Case) -> Findings:
    """The node that breaks the fewest soft demands and no hard one."""
    nodes = [
        NodeState(
            id=name,
            total=amounts(has.get("total", has)),
            available=amounts(has.get("available", has.get("total", has))),
        )
        for name, has in need(case, "nodes").items()
    ]
    request = amounts(need(case, "request"))
    constraint = case.get("constraint", "hard")
    soft = [
        name
        for name in request
        if (constraint.get(name) if isinstance(constraint, Mapping) else constraint) == "soft"
    ]
    demand = SoftDemand(
        request=request,
        soft=frozenset(soft),
        hints=tuple(case.get("hints", case.get("placement_hints")) or ()),
    )
    found = least_broken(nodes, demand, case.get("local", "local"))
    expected = need(case, "expect")
    if found is None:
        yield Finding(
            what="", expected=expected, got="none", agrees=expected in (*NO_NODE, "infeasible")
        )
        return
    got = {"node": found.node, "violations": found.violations}
    if isinstance(expected, Mapping) and "any_of" not in expected:
        yield equal("", expected, {key: got.get(key) for key in expected})
        return
    told = re.search(r"(\d+) (?:soft )?violation", str(expected))
    if told:
        yield equal("", int(told[1]), found.violations)
        return
    allowed: list[Any] = expected["any_of"] if isinstance(expected, Mapping) else [expected]
    agrees = found.node in allowed or "any" in allowed
    yield Finding(what="", expected=expected, got=found.node, agrees=agrees)


def _ids(given: Mapping[str, Any]) -> NumberedIds:
    return NumberedIds(
        whole=tuple(given.get("whole") or ()),
        shares=tuple((number, units(left)) for number, left in given.get("fractional") or ()),
    )


def _returned(given: Any) -> NumberedIds:
    """Devices as `{whole, fractional}`, as `[ids]`, or as one `[id, share]` or `{id, amount}`."""
    if isinstance(given, Mapping):
        if "id" in given:
            return NumberedIds(shares=((given["id"], units(given["amount"])),))
        return _ids(given)
    if any(isinstance(one, list) for one in given):
        return NumberedIds(shares=tuple((number, units(left)) for number, left in given))
    if any(isinstance(one, float) for one in given):
        return NumberedIds(shares=((given[0], units(given[1])),))
    return NumberedIds(whole=tuple(given))


AREAS: Mapping[str, Callable[[Case], Findings]] = {
    "resource_ids_2020": resource_ids,
    "soft_hard_2020": soft_hard,
}
