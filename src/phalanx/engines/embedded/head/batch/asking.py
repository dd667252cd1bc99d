"""Why something waits, and the scheduler's own picture of the cluster."""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.batch.inquiry import explain_snapshot
from phalanx.batch.writing import as_data
from phalanx.engines.embedded.head.batch.cycles import Cycles
from phalanx.engines.embedded.head.batch.gangs import Gang
from phalanx.errors import JobNotFoundError


class Asking:
    """Answers `explain` and `snapshot`."""

    def __init__(self, cycles: Cycles) -> None:
        self._cycles = cycles

    def explain(self, name: str) -> dict[str, Any]:
        """Why a gang or job waits: reasons, what would change them, and its position in its queue.

        `name`: of a job or gang, or the group of a gang in hex. Raises JobNotFoundError.
        """
        gang = self._find(name)
        if gang is None:
            raise JobNotFoundError(f"nothing called {name!r} waits or runs")
        answer = explain_snapshot(self._cycles.picture(gang), gang.uid)[0]
        answer["waits"] = gang.waits
        if gang.waits:
            answer["position"] = self._position(gang)
        return answer

    def _find(self, name: str) -> Gang | None:
        full = name if "/" in name else f"default/{name}"
        gangs = self._cycles.ledger.gangs.values()
        return next((g for g in gangs if g.uid == full or g.group.hex() == name), None)

    def _position(self, gang: Gang) -> int:
        """1 for the first that waits in its queue: by priority, then by age."""
        mine = (-gang.priority, gang.created, gang.uid)
        others = self._cycles.ledger.gangs.values()
        return 1 + sum(
            other.waits
            and other.queue == gang.queue
            and (-other.priority, other.created, other.uid) < mine
            for other in others
        )

    def snapshot(self) -> bytes:
        """Everything that a cycle could look at, as a snapshot file in JSON."""
        return msgspec.json.encode(as_data(self._cycles.picture(whole=True)))
