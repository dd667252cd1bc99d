"""The range of the time axis on which a plan is shown. The page and the terminal use the same
range.
"""

from __future__ import annotations

from phalanx.model.rows.plan import TimePlan

RANGES_S = {"1h": 3_600.0, "6h": 21_600.0, "1d": 86_400.0, "7d": 604_800.0}
ALL = "all"
_LEAST_S = 60.0
_AFTER = 1.25
"""The length of the axis, as a multiple of the time until the last start that it must show. So the
axis ends a little after that start.
"""


def usual_range(plan: TimePlan) -> str:
    """Return the shortest range that shows all expected starts; ALL if every known end is within
    the shortest range.

    The ends of running work need not be shown. Only if there is no expected start, the range shows
    half of these ends.
    """
    ends = sorted(one.ends_s - plan.now for one in plan.running if one.ends_s is not None)
    if plan.starts:
        last = max(one.at_s - plan.now for one in plan.starts) * _AFTER
    else:
        last = ends[len(ends) // 2] if ends else 0.0
    whole = _moments(plan)
    if whole and max(whole) - plan.now <= min(RANGES_S.values()):
        return ALL
    return next((name for name, length_s in RANGES_S.items() if length_s >= last), ALL)


def length_of(plan: TimePlan, range_: str) -> float:
    """Return the length of the axis for this range in seconds; for ALL, it ends at the last known
    end.
    """
    if range_ in RANGES_S:
        return RANGES_S[range_]
    return max(max(_moments(plan), default=plan.now) - plan.now, _LEAST_S)


def _moments(plan: TimePlan) -> list[float]:
    """Return all known starts and ends."""
    found = [one.ends_s for one in plan.running]
    for start in plan.starts:
        found += [start.at_s, start.ends_s] if start.places else []
    return [moment for moment in found if moment is not None]
