"""Every scorer gives what its formula says: the numbers of `scores.txt` are worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.batch.lines import cases
from tests.batch.test_tables import snapshot_of

from phalanx.batch.registry import make_plugin
from phalanx.batch.rows import Rows
from phalanx.batch.session import Session
from phalanx.batch.specs import Snapshot

CASES = cases((Path(__file__).parent / "scores.txt").read_text())


def scores_of(snapshot: Snapshot, task: str) -> dict[str, float]:
    """The sum of all scorers for a task on every node, before anything is placed."""
    session = Session(snapshot)
    for tier in snapshot.config.tiers:
        for option in tier:
            make_plugin(option.name, option.arguments).open(session)
    cluster = session.cluster
    ask = session.placer.ask(cluster.task_uid.index(task))
    rows = Rows(cluster, np.arange(len(cluster.nodes)))
    total = sum(s.score(rows, ask) for s in session.voices.all("scorer"))  # type: ignore[attr-defined]
    return dict(zip(cluster.node_names, np.broadcast_to(total, len(rows)).tolist(), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_scores(case: dict[str, Any]) -> None:
    snapshot = snapshot_of({k: v for k, v in case.items() if k != "expect"})
    for task, expected in case["expect"]["scores"].items():
        assert scores_of(snapshot, task) == pytest.approx(expected, abs=1e-9)
