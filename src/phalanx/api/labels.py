"""Label selectors among the options of tasks and actors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.scheduler.placement.labels import parse_selector


def check_labels(options: Mapping[str, Any]) -> None:
    """Raise ValueError for a selector that is none, before anything is made of it."""
    selectors = [options.get("label_selector")]
    selectors += [one["label_selector"] for one in options.get("fallback_strategy") or ()]
    for selector in selectors:
        parse_selector(selector)
