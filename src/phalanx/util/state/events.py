"""The events of a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.api.session import attached_engine
from phalanx.model.rows.events import EventInfo
from phalanx.model.rows.row import Rows
from phalanx.observe.events import EventQuery, check_events
from phalanx.protocol.requests.events import ListEvents
from phalanx.util.state.listing import TIMEOUT_S


def list_events(
    address: str | None = None,
    *,
    job: str = "",
    node: str = "",
    queue: str = "",
    user: str = "",
    kinds: Sequence[str] = (),
    since: float = 0.0,
    until: float | None = None,
    after: int = 0,
    limit: int = 1_000,
    timeout: float = TIMEOUT_S,
) -> Rows[EventInfo]:
    """Return recent events, the oldest first, as `phalanx events` lists them.

    `job` selects the events of a job or gang; `node`, `queue`, `user` and `kinds` select in the
    same way. `since` and `until` are in seconds since the epoch. `after` selects the events after
    the one with this number. Raises ValueError for a query that is not allowed, and ConnectionError
    when there is no cluster.

    Example:
        for event in list_events(job="default/train", limit=10):
            print(event)
    """
    query = EventQuery(
        job=job, node=node, queue=queue, user=user, kinds=list(kinds), since=since, until=until,
        after=after, limit=limit,
    )  # fmt: skip
    check_events(query)
    engine = attached_engine()
    if engine is not None and address in (None, "auto"):
        return Rows(engine.ask(ListEvents(query)).events)
    from phalanx.runtime.daemons.finding import ask_cluster

    return Rows(ask_cluster(address, ListEvents(query), timeout).events)
