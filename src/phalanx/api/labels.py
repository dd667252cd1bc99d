"""Checks of the label selectors in the options of tasks and actors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.scheduler.placement.labels import parse_selector


def check_labels(options: Mapping[str, Any]) -> None:
    """Raise ValueError for a malformed label selector in these options."""
    selectors = [options.get("label_selector")]
    selectors += [one["label_selector"] for one in options.get("fallback_strategy") or ()]
    for selector in selectors:
        parse_selector(selector)
