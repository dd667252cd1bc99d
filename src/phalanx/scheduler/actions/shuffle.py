"""The action shuffle: evicts the tasks that plugins want to move.

Source: Volcano's shuffle action: the first tier that names victims decides.
"""

from __future__ import annotations

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.statement import Statement


def run(session: Session) -> None:
    statement = Statement(session)
    for t in session.hooks.union("victims"):
        if session.cluster.status[t] == j.RUNNING:
            statement.evict(t, "shuffle")
    statement.commit()
