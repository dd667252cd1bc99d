"""The plugin min-runtime: lets a task run for a minimum time before it may be evicted.

Modelled on KAI's minimum run time. A task is not evicted before it has run for its queue's minimum
or, if the queue has none, for the general minimum. A task whose start is unknown may be evicted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from phalanx.scheduler.cycle.accepted import DURATION, Accepted
from phalanx.scheduler.cycle.arguments import Arguments, seconds
from phalanx.scheduler.cycle.session import Session


class MinRuntime:
    """The plugin min-runtime. Arguments: `preempt` and `reclaim`, the minimum run times against
    these two kinds of evictions, such as "10m"; by default there are none.

    `queues: {name: {preempt: ..., reclaim: ...}}` sets the two times of a queue. For gang
    evictions, the longer of the two times applies.
    """

    name = "min-runtime"
    accepts: ClassVar[Accepted] = {
        "preempt": DURATION,
        "reclaim": DURATION,
        "queues": {"*": {"preempt": DURATION, "reclaim": DURATION}},
    }

    def __init__(self, arguments: Arguments) -> None:
        self._all: Mapping[str, Any] = arguments
        queues = arguments.get("queues")
        self._queues: Mapping[str, Any] = queues if isinstance(queues, dict) else {}

    def open(self, session: Session) -> None:
        cluster = session.cluster

        def wait(t: int, kind: str) -> float:
            index = cluster.job_of[t]
            name = cluster.queues[cluster.jobs[index].queue].name if index >= 0 else ""
            own = self._queues.get(name)
            said = own if isinstance(own, dict) and kind in own else self._all
            return seconds(said.get(kind)) or 0.0

        def ripe(t: int, kinds: Sequence[str]) -> bool:
            started = cluster.started[t]
            least = max(wait(t, kind) for kind in kinds)
            return started is None or session.now >= started + least

        def spare(*kinds: str) -> Any:
            def victims(_: Any, candidates: Sequence[int]) -> list[int]:
                return [t for t in candidates if ripe(t, kinds)]

            return victims

        session.add("preemptable", self.name, spare("preempt"))
        session.add("reclaimable", self.name, spare("reclaim"))
        session.add("evictable", self.name, spare("preempt", "reclaim"))
