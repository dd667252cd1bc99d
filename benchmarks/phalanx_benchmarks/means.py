"""Summarizes a run in a few numbers."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from phalanx_benchmarks.row import MICROBENCHMARK, PROGRAMS
from phalanx_benchmarks.runner import Result

GIGABYTES = "GB/s"
IN_MEANS = (MICROBENCHMARK, PROGRAMS)


def geometric_means(results: Sequence[Result], peer: str) -> dict[str, tuple[float, int]]:
    """Return two geometric means of the ratios to a peer, with their numbers of rows. The first
    mean is over rows of calls and of values between processes, without rows that are `aside`. The
    second mean also includes the gigabyte rows, which the speed of memory limits.
    """
    ratios = [
        (result.row.unit, ratio.median)
        for result in results
        if result.row.group in IN_MEANS
        and not result.row.aside
        and (ratio := result.ratio(peer)) is not None
    ]
    groups = {
        "without the gigabyte rows": [ratio for unit, ratio in ratios if unit != GIGABYTES],
        "with them": [ratio for _, ratio in ratios],
    }
    return {
        name: (statistics.geometric_mean(each), len(each)) for name, each in groups.items() if each
    }


def shares_of_floor(results: Sequence[Result]) -> list[tuple[str, str, float]]:
    """Return (row, floor, fraction) for each row and each of its floors, by name. `fraction` is the
    row's figure divided by the floor's. Floors that this run has not measured are left out.
    """
    medians = {result.row.name: result.phalanx.median for result in results}
    shares = []
    for result in results:
        for floor in result.row.floors:
            ours, plain = result.phalanx.median, medians.get(floor)
            if ours and plain:
                shares.append((result.row.name, floor, ours / plain))
    return shares
