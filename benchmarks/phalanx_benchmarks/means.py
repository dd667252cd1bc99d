"""What a run says in one number, and which rows it leaves out."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from phalanx_benchmarks.row import MICROBENCHMARK, PROGRAMS
from phalanx_benchmarks.runner import Result

GIGABYTES = "GB/s"
IN_MEANS = (MICROBENCHMARK, PROGRAMS)


def geometric_means(results: Sequence[Result], peer: str) -> dict[str, tuple[float, int]]:
    """The geometric mean of the ratios beside a peer, and of how many rows: of rows of calls and of
    values between processes, without what a row says is aside; and with the gigabyte rows, which
    are bounded by the memory itself.
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
    """For each row and each of its floors measured in this run: both names, and the share."""
    medians = {result.row.name: result.phalanx.median for result in results}
    shares = []
    for result in results:
        for floor in result.row.floors:
            ours, plain = result.phalanx.median, medians.get(floor)
            if ours and plain:
                shares.append((result.row.name, floor, ours / plain))
    return shares
