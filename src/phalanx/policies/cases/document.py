"""One file of cases: which of the forms it has, and all findings in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import yaml

from phalanx.policies.cases import amounts, groups, oldest, placement, runtime
from phalanx.policies.cases.compare import Case, Finding, Findings, Unusable, need
from phalanx.policies.cases.selecting import mask_choice, ranges, scenario
from phalanx.policies.cases.wiring import device_choice, machines

AREAS: Mapping[str, Callable[[Case], Findings]] = {
    **placement.AREAS,
    **groups.AREAS,
    **amounts.AREAS,
    **runtime.AREAS,
    **oldest.AREAS,
}
"""What answers the cases of each `area`."""


def findings(text: str) -> Iterator[tuple[str, list[Finding] | Unusable]]:
    """(the case's name, what came of it) for each case of a file in YAML.

    What came is a list of findings, or why the case cannot be understood.

    A file has `cases` with areas, or `machines` and `cases` about devices, or the selector's
    `scenarios`, `gpu_mask_choice` and `ranges`.

    Raises Unusable for anything else.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Unusable(f"not YAML: {error}") from None
    if not isinstance(document, Mapping):
        raise Unusable("a file of cases is a mapping with cases, or with scenarios")
    checks = list(_checks(document))
    if not checks:
        raise Unusable("no cases: none of cases, scenarios, gpu_mask_choice and ranges")
    for name, check in checks:
        yield name, _answered(check)


def _answered(check: Callable[[], Findings]) -> list[Finding] | Unusable:
    try:
        return list(check()) or Unusable("expects nothing")
    except Unusable as error:
        return error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return Unusable(f"{type(error).__name__}: {error}")


def _checks(document: Mapping[str, Any]) -> Iterator[tuple[str, Callable[[], Findings]]]:
    known = machines(document["machines"]) if "machines" in document else None
    for at, case in enumerate(document.get("cases") or ()):
        name = str(case.get("id", f"case {at + 1}"))
        if known is not None and "area" not in case:
            yield name, partial(device_choice, case, known)
        else:
            yield name, partial(_by_area, case)
    config = document.get("config") or {}
    for at, case in enumerate(document.get("gpu_mask_choice") or ()):
        yield f"gpu_mask_choice {at + 1}", partial(mask_choice, case)
    for at, case in enumerate(document.get("scenarios") or ()):
        name = str(case.get("id", f"scenario {at + 1}"))
        yield name, partial(scenario, case, config)
    for at, case in enumerate(document.get("ranges") or ()):
        yield f"ranges {at + 1}", partial(ranges, case)


def _by_area(case: Case) -> Findings:
    area = need(case, "area")
    if area not in AREAS:
        raise Unusable(f"unknown area {area!r}; known: {', '.join(sorted(AREAS))}")
    return AREAS[area](case)
