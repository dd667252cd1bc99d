"""Evict what the plugins want moved.

Source: Volcano's shuffle action: the victims of the first tier that names any, each evicted.
"""

from __future__ import annotations

from phalanx.batch import jobs as j
from phalanx.batch.session import Session
from phalanx.batch.statement import Statement


def run(session: Session) -> None:
    statement = Statement(session)
    for t in session.hooks.union("victims"):
        if session.cluster.status[t] == j.RUNNING:
            statement.evict(t, "shuffle")
    statement.commit()
