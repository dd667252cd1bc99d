"""The closeness of a gang's members in the network."""

from __future__ import annotations

from typing import Literal

import msgspec


class NetworkTopology(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How close together a gang must be placed (hard) or should be placed (soft); at most one of
    the two bounds is set.
    """

    mode: Literal["hard", "soft"] = "hard"
    highest_tier: int | None = None
    highest_tier_name: str = ""
