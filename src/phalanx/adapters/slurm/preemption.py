"""Slurm's word for the preemption that is in force."""

from __future__ import annotations

from collections.abc import Sequence

_PREEMPTING = frozenset({"preempt", "reclaim", "gangpreempt", "gangreclaim"})
"""The actions of the scheduler that end running work to make room for other work."""


def preempt_mode(actions: Sequence[str]) -> str:
    """Return Slurm's word for what happens to work that must make room. `actions`: the actions of
    the scheduler.
    """
    return "OFF" if _PREEMPTING.isdisjoint(actions) else "REQUEUE"
