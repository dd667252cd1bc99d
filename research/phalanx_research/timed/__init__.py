"""Jobs over virtual time, decided by the head's gang scheduler.

    from phalanx_research.timed import classic, from_trace, read_queues, simulate

`simulate` is the only entry. It returns a `Result`.
"""

from phalanx_research.timed.adapting import from_trace
from phalanx_research.timed.loop import Progress, simulate
from phalanx_research.timed.policies import CLASSIC, PUBLISHED, PUBLISHED_POLICIES, classic, placed
from phalanx_research.timed.queues import read_queues
from phalanx_research.timed.result import JobRecord, Measures, QueueMeasures, Result, Series
from phalanx_research.timed.workload import (
    Job,
    KeptApart,
    Part,
    Rules,
    Training,
    WorkloadError,
    machine,
)

__all__ = [
    "CLASSIC",
    "PUBLISHED",
    "PUBLISHED_POLICIES",
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
    "Training",
    "WorkloadError",
    "classic",
    "from_trace",
    "machine",
    "placed",
    "read_queues",
    "simulate",
]
