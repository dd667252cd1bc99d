"""Jobs over virtual time, decided by the head's gang scheduler.

    from phalanx.sim.timed import classic, from_trace, read_queues, simulate

`simulate` is the one way in; `Result` is what comes out.
"""

from phalanx.sim.timed.adapting import from_trace
from phalanx.sim.timed.loop import Progress, simulate
from phalanx.sim.timed.policies import CLASSIC, PUBLISHED, classic, placed
from phalanx.sim.timed.queues import read_queues
from phalanx.sim.timed.result import JobRecord, Measures, QueueMeasures, Result, Series
from phalanx.sim.timed.workload import Job, KeptApart, Part, Rules, WorkloadError, machine

__all__ = [
    "CLASSIC",
    "PUBLISHED",
    "Job",
    "JobRecord",
    "KeptApart",
    "Measures",
    "Part",
    "Progress",
    "QueueMeasures",
    "Result",
    "Rules",
    "Series",
    "WorkloadError",
    "classic",
    "from_trace",
    "machine",
    "placed",
    "read_queues",
    "simulate",
]
