"""Checks whether labels meet requirements, and whether a task tolerates a taint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from phalanx.scheduler.cycle.specs import Match, Taint, Toleration


def meets(labels: Mapping[str, str], matches: Iterable[Match]) -> bool:
    """Whether every requirement holds."""
    return all(_meets_one(labels, m) for m in matches)


def _meets_one(labels: Mapping[str, str], match: Match) -> bool:
    value = labels.get(match.key)
    if match.op == "In":
        return value is not None and value in match.values
    if match.op == "NotIn":
        return value is None or value not in match.values
    if match.op == "Exists":
        return value is not None
    if match.op == "DoesNotExist":
        return value is None
    try:
        number, bound = int(value or ""), int(match.values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if match.op == "Gt" else number < bound


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether any of the tolerations covers the taint."""
    return any(_covers(t, taint) for t in tolerations)


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value
