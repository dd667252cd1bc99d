"""Every scorer returns what its formula says. The numbers in `scores.txt` are computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.scheduler.cycle.lines import cases
from tests.unit.scheduler.cycle.test_tables import snapshot_of

from phalanx.scheduler.cycle.registry import make_plugin
from phalanx.scheduler.cycle.rows import Rows
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import Snapshot

CASES = cases((Path(__file__).parent / "scores.txt").read_text())


def opened(snapshot: Snapshot) -> Session:
    session = Session(snapshot)
    for tier in snapshot.config.tiers:
        for option in tier:
            make_plugin(option.name, option.arguments).open(session)
    return session


def scores_of(session: Session, task: str, domain: str) -> dict[str, float]:
    """Return the sum of all scorers' values for a task, on every node, before anything is placed.
    `domain`: the network domain of the rest of its gang.
    """
    cluster = session.cluster
    ask = session.placer.ask(cluster.task_uid.index(task), domain)
    rows = Rows(cluster, np.arange(len(cluster.nodes)))
    total = np.zeros(len(rows))
    for scorer in session.hooks.all("scorer"):
        total += scorer.score(rows, ask)  # type: ignore[attr-defined]
    return dict(zip(cluster.node_names, total.tolist(), strict=True))


def domain_scores_of(session: Session, gang: str, names: list[str]) -> dict[str, float]:
    """Return the scores of these network domains for the whole gang."""
    part = session.cluster.jobs[session.cluster.job_index[f"default/{gang}"]].default_subjob
    found: dict[str, float] = {}
    for order in session.hooks.all("hypernode_order"):
        found.update(order(part, names))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_scores(case: dict[str, Any]) -> None:
    session = opened(snapshot_of({k: v for k, v in case.items() if k != "expect"}))
    for asker, expected in case["expect"]["scores"].items():
        task, _, domain = asker.partition("@")
        gang = task.removeprefix("default/domains:")
        if gang != task:
            found = domain_scores_of(session, gang, list(expected))
        else:
            found = scores_of(session, task, domain)
        assert found == pytest.approx(expected, abs=1e-9)
