"""Limits the number of devices that a plugin reads from a node, because a snapshot may state any
number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phalanx.scheduler.cycle.amounts import Counts
from phalanx.scheduler.cycle.session import Session


def numbered_devices(
    session: Session, plugin: str, counts: Sequence[int] | Counts, most: int
) -> Counts:
    """Return each node's number of devices, but at most `most`. If a node has more, the plan gets a
    warning.
    """
    given = np.asarray(counts, dtype=np.int64)
    large = np.flatnonzero(given > most)
    if len(large):
        node = session.cluster.node_names[int(large[0])]
        others = f" (and {len(large) - 1} more nodes)" if len(large) > 1 else ""
        session.warn(
            f"{plugin}: node {node}{others} has {int(given[large[0]])} devices; "
            f"the first {most} of a node are used"
        )
    return np.minimum(given, most)
