"""What happened in a cluster."""

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
    """What happened lately, the oldest first, as `phalanx events` lists it: of a job or gang, a
    node, a queue, a user or of some kinds; between two moments (seconds since the epoch); or
    `after` the event of that number. Raises ValueError for what cannot be asked, and
    ConnectionError where there is no cluster."""
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
