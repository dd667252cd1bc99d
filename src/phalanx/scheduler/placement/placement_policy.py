"""The policy by which a cluster places its work. The head reads it once and sends it to every
node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from phalanx.model.nearest import nearest
from phalanx.scheduler.placement.selector.settings import SelectorSettings

POLICIES = ("default", "hybrid", "least-waiting", "selector", "two-pass-random")
"""The built-in policies (see docs/explanation/placement.md). Entry points add others."""


class PlacementPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A policy's name, and its settings if the policy has any."""

    policy: str = "default"
    selector: SelectorSettings = SelectorSettings()
    spread_threshold: float = 0.5
    """For the policy hybrid: a node whose utilization is below this fraction counts as unused."""

    @property
    def starts_here_first(self) -> bool:
        """Whether a node that has room for new work starts it without comparing other nodes."""
        return self.policy in ("default", "least-waiting")

    def spreading(self, threshold: float | None) -> PlacementPolicy:
        """Return the policy `hybrid` with this threshold if this is the default policy and a
        threshold is given. Otherwise return this policy.
        """
        if threshold is None or self.policy != "default":
            return self
        return PlacementPolicy(policy="hybrid", spread_threshold=threshold)


def read_placement_policy(given: str | Mapping[str, Any] | None) -> PlacementPolicy:
    """Return the policy for a name, or for a mapping such as `{"policy": "selector",
    "candidate_factor": 3}`. None stands for the default policy.

    Raises ValueError for an unknown name, and for unknown settings.
    """
    if given is None:
        return PlacementPolicy()
    settings = dict(given) if isinstance(given, Mapping) else {"policy": given}
    policy = settings.pop("policy", None)
    if not isinstance(policy, str):
        raise ValueError(f"placement must name a policy: {', '.join(POLICIES)}; not {given!r}")
    if policy not in POLICIES:
        from phalanx.scheduler.placement.strategy import load_strategy

        try:
            load_strategy(policy)
        except ValueError as error:
            raise ValueError(
                f"{error}; built in: {', '.join(POLICIES)}{nearest(policy, POLICIES)}"
            ) from None
    if policy == "hybrid":
        threshold = settings.pop("spread_threshold", 0.5)
        if settings or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
            raise ValueError(
                f"the policy hybrid has one setting, spread_threshold from 0 to 1, not {given!r}"
            )
        return PlacementPolicy(policy=policy, spread_threshold=threshold)
    if settings and policy != "selector":
        raise ValueError(f"the policy {policy} has no settings; given: {', '.join(settings)}")
    try:
        return PlacementPolicy(policy=policy, selector=msgspec.convert(settings, SelectorSettings))
    except msgspec.ValidationError as error:
        known = ", ".join(SelectorSettings.__struct_fields__)
        raise ValueError(f"a setting of the selector: {error}; its settings: {known}") from None
