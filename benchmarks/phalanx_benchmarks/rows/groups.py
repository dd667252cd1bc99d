"""Rows of placement groups: a hundred are created, awaited and removed."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from phalanx_benchmarks.row import Api, loop

GROUPS = 100


def _create_and_remove(api: Api) -> Callable[[], object]:
    util = importlib.import_module(f"{api.__name__}.util")

    def work() -> None:
        groups = [util.placement_group(bundles=[{"custom": 0.001}]) for _ in range(GROUPS)]
        for group in groups:
            group.wait(timeout_seconds=30)
        for group in groups:
            util.remove_placement_group(group)

    return work


ROWS = (
    loop(
        "placement group create/removal",
        _create_and_remove,
        per_call=GROUPS,
        init={"resources": {"custom": 100}},
    ),
)
