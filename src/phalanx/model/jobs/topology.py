"""How close together a gang is placed."""

from __future__ import annotations

from typing import Literal

import msgspec


class NetworkTopology(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How close a gang must (hard) or should (soft) be; at most one of the two bounds."""

    mode: Literal["hard", "soft"] = "hard"
    highest_tier: int | None = None
    highest_tier_name: str = ""
