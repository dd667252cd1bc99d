"""Cases about amounts of resources: instances, their arithmetic, and sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from phalanx.policies.cases.cluster import amounts, told, units
from phalanx.policies.cases.compare import NO_NODE, Case, Finding, Findings, Unusable, equal, need
from phalanx.resources.instance_lists import (
    ACCELERATORS,
    add_bounded,
    allocate,
    create,
    subtract_bounded,
)
from phalanx.resources.quantities import SCALE, from_units
from phalanx.resources.sets import ResourceSet

Lists = dict[str, list[int]]


def instances(case: Case) -> Findings:
    """Taking from instances and giving back, step by step."""
    left = _lists(need(case, "before"))
    numbered = _numbered(left)
    for at, step in enumerate(need(case, "steps")):
        what = f"step {at + 1}"
        if "free" in step:
            for name, returned in _lists(step["free"]).items():
                left[name] = [a + b for a, b in zip(left[name], returned, strict=True)]
        elif "request" in step:
            taken = allocate(left, amounts(step["request"]), numbered)
            for name, devices in (taken or {}).items():
                left[name] = [a - b for a, b in zip(left[name], devices, strict=True)]
            yield _taken(what, need(step, "expect"), taken)
        else:
            raise Unusable(f"{what} neither requests nor frees: {step!r}")
        if "left" in step:
            yield equal(f"{what}, left", step["left"], _amounts(left, step["left"]))


def pg_instances(case: Case) -> Findings:
    """Taking from a group's resources: `X_wild` of the whole group, `X_0` of its first bundle."""
    left = _lists(need(case, "before"))
    for at, step in enumerate(need(case, "steps")):
        what = f"step {at + 1}"
        taken = _allocate_in_group(left, amounts(need(step, "request")))
        for name, devices in (taken or {}).items():
            left[name] = [a - b for a, b in zip(left[name], devices, strict=True)]
        yield _taken(what, need(step, "expect"), taken)
        if "left" in step:
            yield equal(f"{what}, left", step["left"], _amounts(left, step["left"]))


def instance_arith(case: Case) -> Findings:
    """Adding and subtracting instance by instance, within bounds."""
    before = _units(need(case, "before"))
    arg = _units(need(case, "arg"))
    expected, op = need(case, "expect"), need(case, "op")
    if op in ("subtract", "sub", "-"):
        allowed = case.get("allow_negative", case.get("allow_going_negative", False))
        after, lacking = subtract_bounded(before, arg, allow_negative=bool(allowed))
        got = {"after": after, "underflow": lacking}
    elif op in ("add", "+"):
        total = _units(case["total"]) if "total" in case else [max(SCALE, b) for b in before]
        after, excess = add_bounded(before, arg, total)
        got = {"after": after, "overflow": excess}
    else:
        raise Unusable(f"op is add or subtract, not {op!r}")
    plain = expected if isinstance(expected, Mapping) else {"after": expected}
    answer = {key: [from_units(one) for one in got[key]] for key in got if key in plain}
    yield equal("", plain, answer)


def instance_create(case: Case) -> Findings:
    """The instances of a node's totals."""
    numbered = ACCELERATORS | frozenset(case.get("unit_resources") or case.get("unit") or ())
    got = create(amounts(need(case, "resources")), numbered)
    yield equal("", need(case, "expect"), _amounts(got, got))


def resource_set(case: Case) -> Findings:
    """Comparing and combining two sets."""
    left, right = amounts(need(case, "left")), amounts(case.get("right"))
    op, expected = str(need(case, "op")), need(case, "expect")
    if op not in _SET_OPERATIONS:
        raise Unusable(f"op is one of {', '.join(_SET_OPERATIONS)}, not {op!r}")
    try:
        got = _SET_OPERATIONS[op](left, right, amounts(case.get("total")))
    except ValueError as error:
        agrees = expected in ("error", "ValueError", *NO_NODE)
        yield Finding(what="", expected=expected, got=f"error: {error}", agrees=agrees)
        return
    if isinstance(got, ResourceSet):
        plain = {name: amount for name, amount in (expected or {}).items() if amount}
        yield equal("", plain, told(got))
    else:
        yield equal("", expected, got)


_SET_OPERATIONS: Mapping[str, Callable[[ResourceSet, ResourceSet, ResourceSet], Any]] = {
    "<=": lambda left, right, _: left <= right,
    ">=": lambda left, right, _: left >= right,
    "==": lambda left, right, _: left == right,
    "!=": lambda left, right, _: left != right,
    "subset": lambda left, right, _: left <= right,
    "superset": lambda left, right, _: left >= right,
    "+": lambda left, right, _: left + right,
    "-": lambda left, right, _: left - right,
    "add": lambda left, right, _: left + right,
    "subtract": lambda left, right, _: left - right,
    "add_bounded": lambda left, right, total: left.add_bounded(right, total),
    "subtract_strict": lambda left, right, _: left.subtract_strict(right),
    "is_empty": lambda left, *_: not left,
    "remove_negative": lambda left, *_: ResourceSet({n: u for n, u in left.items() if u > 0}),
}


def _allocate_in_group(left: Lists, request: ResourceSet) -> Lists | None:
    """What a request takes in a group: out of one bundle, and as much out of the group's sum."""
    taken: Lists = {}
    named = {name: name.rpartition("_")[::2] for name in request}
    for name, (kind, index) in named.items():
        if index == "wild":
            continue
        found = allocate(left, {name: request[name]}, _numbered(left))
        if found is None:
            return None
        taken.update(found)
        taken[f"{kind}_wild"] = found[name]
    for name, (kind, index) in named.items():
        if index != "wild" or name in taken:
            continue
        # As Ray does, each resource takes its own first bundle that has room for it.
        own = [other for other in left if other.rpartition("_")[0] == kind and other != name]
        for source in own or [name]:
            found = allocate(left, {source: request[name]}, _numbered(left))
            if found is not None:
                taken.update(found)
                taken[name] = found[source]
                break
        else:
            return None
    fits = all(a >= b for name in taken for a, b in zip(left[name], taken[name], strict=True))
    return taken if fits else None


def _numbered(lists: Mapping[str, Sequence[int]]) -> frozenset[str]:
    several = {name for name, has in lists.items() if len(has) > 1}
    named = {name for name in lists if name.partition("_")[0] in ACCELERATORS}
    return ACCELERATORS | several | named


def _taken(what: str, expected: Any, taken: Lists | None) -> Finding:
    if taken is None:
        agrees = expected in NO_NODE or expected in ("infeasible", "unavailable", False)
        return Finding(what=what, expected=expected, got="none", agrees=agrees)
    if isinstance(expected, Mapping):
        return equal(what, expected, _amounts(taken, taken))
    return Finding(what=what, expected=expected, got="ok", agrees=expected in ("ok", True))


def _lists(given: Mapping[str, Any]) -> Lists:
    return {name: _units(has) for name, has in given.items()}


def _units(given: Any) -> list[int]:
    return [units(one) for one in (given if isinstance(given, list) else [given])]


def _amounts(lists: Lists, names: Mapping[str, Any]) -> dict[str, list[float]]:
    return {name: [from_units(one) for one in lists.get(name, [])] for name in names}


AREAS: Mapping[str, Callable[[Case], Findings]] = {
    "instances": instances,
    "pg_instances": pg_instances,
    "instance_arith": instance_arith,
    "instance_create": instance_create,
    "resource_set": resource_set,
}
