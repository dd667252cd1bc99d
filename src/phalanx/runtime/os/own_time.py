"""The own time of this process, for all that waits for others in it; see `phalanx.model.own_time`.

One clock serves the process, so that its threads and machines can compare what they note.
"""

from __future__ import annotations

import time

from phalanx.model.own_time import OwnTime

own_time = OwnTime(time.monotonic)
"""Seconds. Loops look at it at each tick."""
