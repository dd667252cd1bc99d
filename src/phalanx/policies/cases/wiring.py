"""Cases about devices: machines as `nvidia-smi topo -m` prints them, and what to pick there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.policies.cases.compare import Case, Findings, Unusable, equal, need
from phalanx.resources.device_rules import device_rule
from phalanx.resources.machines import machine
from phalanx.resources.topology import Topology, from_rows, parse_topo

_RULES = {"first_fit": "first-fit", "sequential": "lowest-index", "lowest_index": "lowest-index"}


def machines(given: Mapping[str, Any]) -> dict[str, Topology]:
    """The machines of a file by name."""
    return {name: _topology(name, one) for name, one in given.items()}


def device_choice(case: Case, known: Mapping[str, Topology]) -> Findings:
    """What each rule that the case names picks."""
    name = need(case, "machine")
    topology = known[name] if name in known else machine(name)
    free, count = need(case, "free"), need(case, "k")
    required, min_link = case.get("required") or (), case.get("min_link")
    picked = topology.pick(free, count, required, min_link)
    if "pack" in case:
        yield equal("pack", case["pack"], list(picked))
    if "pack_w" in case:
        yield equal("pack_w", case["pack_w"], topology.link_sum(picked))
    for key, rule in _RULES.items():
        if key in case:
            yield equal(key, case[key], list(device_rule(rule).pick(free, count)))


def _topology(name: str, given: Any) -> Topology:
    if isinstance(given, str):
        return parse_topo(given)
    rows = need(given, "topo_m")
    if isinstance(rows, str):
        return parse_topo(rows, given.get("topo_mp"))
    pcie = given.get("topo_mp")
    try:
        return from_rows(
            [row.split() for row in rows],
            given.get("numa"),
            [row.split() for row in pcie] if pcie else None,
        )
    except ValueError as error:
        raise Unusable(f"machine {name}: {error}") from None
