"""The own time of this process, for all of its code that waits for other processes.

See `phalanx.model.own_time`. One clock serves the process, so that its threads and machines can
compare their times.
"""

from __future__ import annotations

import time

from phalanx.model.own_time import OwnTime

own_time = OwnTime(time.monotonic)
"""Returns the process's own time in seconds. Loops read this clock at each tick."""
