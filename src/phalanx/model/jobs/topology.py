"""A job's request to have the members of its gang close to each other in the network."""

from __future__ import annotations

from typing import Literal

import msgspec


class NetworkTopology(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How close to each other in the network the members of a gang must be placed (hard), or should
    be (soft). At most one of the two bounds is set.
    """

    mode: Literal["hard", "soft"] = "hard"
    highest_tier: int | None = None
    highest_tier_name: str = ""
