"""The plugin cdp: protects tasks that have just started from eviction.

Source: Volcano's cdp plugin. The label volcano.sh/cooldown-time (a duration) protects a task for
that time after its start. Without the label, the annotation of the same name counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.arguments import Arguments, seconds
from phalanx.scheduler.cycle.session import Session

KEY = "volcano.sh/cooldown-time"


class Cooldown:
    """The plugin cdp. It takes no arguments."""

    name = "cdp"
    accepts: ClassVar[Accepted] = {}

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> None:
        cluster = session.cluster

        def warm(t: int) -> bool:
            spec = cluster.tasks[t]
            labels, annotations = dict(spec.shape.labels), dict(spec.shape.annotations)
            wait = seconds(labels.get(KEY, annotations.get(KEY)))
            started = cluster.started[t]
            started = spec.created if started is None else started
            return wait is not None and started is not None and session.now < started + wait

        def spare(_: Any, candidates: Sequence[int]) -> list[int]:
            return [t for t in candidates if not warm(t)]

        session.add("preemptable", self.name, spare)
        session.add("reclaimable", self.name, spare)
