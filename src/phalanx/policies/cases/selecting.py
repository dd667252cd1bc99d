"""Cases about the selector: its chain of filters, masks of devices, and ranges of ports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from phalanx.policies.cases.compare import Case, Finding, Findings, Unusable, equal, need
from phalanx.policies.seeded import Seeded
from phalanx.policies.selector.chain import select
from phalanx.policies.selector.node import Amounts, SelectorNode, choose_mask
from phalanx.policies.selector.request import (
    NotSelected,
    Selection,
    SelectorConfig,
    SelectorRequest,
)
from phalanx.resources.devices import LowestIndex
from phalanx.resources.ports import Ports

_SETTINGS = tuple(field.name for field in fields(SelectorConfig))


NOTHING_LISTED = (0, 0, 0, 0)


def mask_choice(case: Case) -> Findings:
    """The lowest free devices, as a mask."""
    free = need(case, "total") & ~case.get("used", 0)
    yield equal("", need(case, "mask"), choose_mask(free, need(case, "want"), LowestIndex()))


def ranges(case: Case) -> Findings:
    """Ranges of ports joined, cut and subtracted."""
    op = need(case, "op")
    try:
        got = _ranges(op, case)
    except ValueError as error:
        if isinstance(error, Unusable):
            raise
        agrees = case.get("out") in ("error", "ValueError") or "error" in case
        yield Finding(what=op, expected=case.get("out"), got=f"error: {error}", agrees=agrees)
        return
    expected = next((case[key] for key in ("out", "result") if key in case), case.get("expect"))
    yield equal(op, expected, got)


def scenario(case: Case, config: Mapping[str, Any]) -> Findings:
    """One set of nodes through several requests."""
    settings = {**config, **(case.get("config") or {})}
    nodes: dict[str, SelectorNode] = {}
    types = _types(settings.get("nodes")) | _types(case.get("configured"))
    for at, step in enumerate(need(case, "steps")):
        types |= _types(step.get("configured"))
        for name in step.get("remove") or ():
            nodes.pop(name, None)
        for name, given in (step.get("add") or {}).items():
            fresh = _node(name, given or {}, types.get(name))
            nodes[name] = nodes[name].reported(fresh) if name in nodes else fresh
        for name, amounts in (step.get("tried") or {}).items():
            nodes[name] = replace(nodes[name], tried=nodes[name].tried + _listed(amounts))
        yield from _asked(f"step {at + 1}", case, step, nodes, _config(settings))
        for name, amounts in (step.get("reserve") or {}).items():
            nodes[name] = nodes[name].reserve(_listed(amounts))


def _asked(
    what: str,
    case: Case,
    step: Case,
    nodes: Mapping[str, SelectorNode],
    config: SelectorConfig,
) -> Findings:
    given, expected = need(step, "request"), need(step, "expect")
    if not isinstance(expected, Mapping):
        expected = {"error": expected}
    try:
        request = _request(given, case.get("job_total_gpu"))
    except ValueError as error:
        yield Finding(
            what=what,
            expected=expected,
            got=f"error: {error}",
            agrees="error" in expected or "invalid" in expected,
        )
        return
    found = select(list(nodes.values()), request, config, Seeded(0))
    if isinstance(found, NotSelected):
        agrees = any(key in expected for key in ("error", "not_available", "raises"))
        yield Finding(what=what, expected=expected, got=f"not available: {found}", agrees=agrees)
        return
    dynamic = found.ports - request.static_ports
    wanted = {**expected}
    if "nodes" in wanted:
        wanted["nodes"] = sorted(wanted["nodes"] or [])
    got = _facts(found)
    if "dynamic_within" in wanted:
        within = Ports.of(wanted.pop("dynamic_within"))
        yield Finding(
            what=f"{what}, dynamic ports",
            expected=[*within.ranges],
            got=[*dynamic.ranges],
            agrees=dynamic <= within,
        )
    yield equal(what, wanted, {key: got.get(key) for key in wanted})


def _facts(found: Selection) -> dict[str, Any]:
    return {
        "nodes": sorted(candidate.node for candidate in found.candidates),
        "ranked": [candidate.node for candidate in found.candidates],
        "masks": {candidate.node: candidate.mask for candidate in found.candidates},
        "overlap": [list(one) for one in found.overlap.ranges],
        "ports": [list(one) for one in found.ports.ranges],
        "port_count": len(found.ports),
        "filtered": dict(found.turned_away),
    }


def _request(given: Mapping[str, Any], job_gpus: int | None) -> SelectorRequest:
    known = ("mem", "cpu", "gpu", "mask", "dyn_ports", "static_ports", "reused_ports", "label",
             "gpu_type", "waiting", "racks")  # fmt: skip
    for key in given:
        if key not in known:
            raise Unusable(f"unknown key {key!r} of a request; known: {', '.join(known)}")
    return SelectorRequest(
        amounts=Amounts(
            memory_mb=given.get("mem", 0),
            cpu=given.get("cpu", 0),
            gpus=given.get("gpu", 0),
            mask=given.get("mask", 0),
        ),
        dynamic_ports=given.get("dyn_ports", 0),
        static_ports=Ports.of(given.get("static_ports") or ()),
        reused_ports=Ports.of(given.get("reused_ports") or ()),
        label=given.get("label"),
        gpu_type=given.get("gpu_type"),
        waiting=given.get("waiting", 1),
        job_gpus=job_gpus,
        racks=frozenset(given.get("racks") or ()),
    )


def _node(name: str, given: Mapping[str, Any], gpu_type: str | None) -> SelectorNode:
    used = given.get("used") or {}
    taken = (
        _listed(used)
        if isinstance(used, list)
        else Amounts(memory_mb=used.get("mem", 0), cpu=used.get("cpu", 0))
    )
    used_gpus = given.get("used_gpus", taken.mask)
    gpus = given.get("gpus", 0)
    return SelectorNode(
        name=name,
        total=Amounts(
            memory_mb=given.get("mem", 0),
            cpu=given.get("cpu", 0),
            gpus=gpus.bit_count(),
            mask=gpus,
        ),
        used=replace(taken, gpus=used_gpus.bit_count(), mask=used_gpus),
        reserved=_listed(given.get("reserved") or NOTHING_LISTED),
        tried=_listed(given.get("tried") or NOTHING_LISTED),
        ports=Ports.of(given.get("ports") or ()),
        used_ports=Ports.of(given.get("used_ports") or ()),
        labels=tuple(given.get("labels") or ()),
        gpu_type=given.get("gpu_type", gpu_type),
        rack=given.get("rack"),
    )


def _listed(given: Sequence[int]) -> Amounts:
    """`[mem, cpu, gpus, mask]`."""
    memory, cpu, gpus, mask = given
    return Amounts(memory_mb=memory, cpu=cpu, gpus=gpus, mask=mask)


def _types(given: Any) -> dict[str, str]:
    """The GPU type of each node that the cluster's configuration lists."""
    return {
        name: str(one.get("gpu_type", one.get("gpuType")) if isinstance(one, Mapping) else one)
        for name, one in (given or {}).items()
    }


def _config(settings: Mapping[str, Any]) -> SelectorConfig:
    for key in settings:
        if key not in _SETTINGS and key != "nodes":
            raise Unusable(f"unknown setting {key!r}; known: {', '.join(_SETTINGS)}")
    return SelectorConfig(**{k: v for k, v in settings.items() if k in _SETTINGS})


def _ranges(op: str, case: Case) -> Any:
    a, b = Ports.of(need(case, "a")), Ports.of(case.get("b") or ())
    if op in ("count", "number", "length"):
        return len(a)
    if op in ("equal", "=="):
        return a == b
    if op in ("contains", "includes", "fit_in", "subset"):
        return a <= b if op in ("fit_in", "subset") else b <= a
    combined = {
        "lowest": a.lowest(case.get("n", case.get("count", 0))),
        "coalesce": a,
        "sort": a,
        "intersect": a & b,
        "subtract": a - b,
        "add": a | b,
        "union": a | b,
        "merge": a | b,
    }
    if op not in combined:
        raise Unusable(f"unknown operation on ranges {op!r}; known: {', '.join(combined)}")
    return [list(one) for one in combined[op].ranges]
