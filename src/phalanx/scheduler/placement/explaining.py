"""Explanations for users: why a task or an actor finds no node now."""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.model.rows.explanation import Explanation, Reason
from phalanx.scheduler.placement.outcome import Filter, Outcome, Rejection, TurnedAway

_CHANGES: Mapping[Filter, str] = {
    "draining": "wait for other nodes, or add some",
    "labels": "ask for other labels, or add nodes with these",
    "gpu type": "ask for another type, or add nodes with GPUs of this one",
    "cpu only": "add nodes without GPUs, or set allow_cpu_jobs_on_gpu_nodes",
    "tried": "nothing: they are tried again after half a minute",
    "rack": "let it leave its racks: same_rack prefer, or ignore",
    "total": "ask for less, or add larger nodes",
    "free": "wait until something ends there, or add nodes",
}


def explain_outcome(kind: str, name: str, outcome: Outcome) -> Explanation:
    """Explain a strategy's outcome for a waiting task or actor. `kind` is "task" or "actor"."""
    if isinstance(outcome, Rejection):
        return explain_waiting(kind, name, *map(_reason, outcome.turned_away))
    node = outcome.node
    text = f"node {node} has room for it and was asked"
    if not outcome.is_available:
        text = f"it waits for room on node {node}, where its strategy sends it"
    return explain_waiting(kind, name, plain_reason(text))


def explain_waiting(kind: str, name: str, *reasons: Reason) -> Explanation:
    """Return an explanation that a task or actor waits for these reasons."""
    return Explanation(snapshot="", name=name, kind=kind, waits=True, reasons=list(reasons))


def plain_reason(sentence: str) -> Reason:
    """Return a reason that consists only of a sentence."""
    return Reason(reason="waiting", count=1, detail={}, sentence=sentence, change="")


def _reason(away: TurnedAway) -> Reason:
    detail = {} if away.resource is None else {
        "resource": away.resource, "asked": away.asked, "most": away.most
    }  # fmt: skip
    return Reason(
        reason=away.filter,
        count=away.nodes,
        detail=detail,
        sentence=str(away),
        change=_CHANGES.get(away.filter, ""),
    )
