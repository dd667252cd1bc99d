"""With the cycles of production, no work starts later than any plan has said, if run times are
right.
"""

from __future__ import annotations

import pytest
from tests.unit.scheduler.forecast.drawn import Listened, simulated

QUICK, ALL, EACH = 20, 200, 5


def held(first: int) -> None:
    """Simulate some clusters, with seeds from `first` on, and check the promises."""
    said = 0
    for seed in range(first, first + EACH):
        listened = Listened()
        result, work = simulated(seed, listened)
        started = {f"default/{job.name}": job.start_s for job in result.jobs}
        assert None not in started.values(), f"seed {seed}: all that fits starts"
        assert len(started) == len(work)
        for plan in listened.plans:
            assert not plan.unknown
            for one in plan.starts:
                at_s = started[one.podgroup]
                assert at_s is not None
                assert one.is_promised
                assert at_s <= one.at_s, f"seed {seed}: {one.podgroup} at {plan.now}"
                said += 1
    assert said


@pytest.mark.parametrize("first", range(0, QUICK, EACH))
def test_nobody_starts_later_than_was_said(first: int) -> None:
    held(first)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(QUICK, ALL, EACH))
def test_nobody_starts_later_than_was_said_on_more_clusters(first: int) -> None:
    held(first)
