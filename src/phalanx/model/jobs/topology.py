"""A job's request that the members of its gang are close to each other in the network."""

from __future__ import annotations

from typing import Literal

import msgspec


class NetworkTopology(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The distance in the network within which the members of a gang must be placed (hard) or
    should be placed (soft). At most one of the two bounds is set.
    """

    mode: Literal["hard", "soft"] = "hard"
    highest_tier: int | None = None
    highest_tier_name: str = ""
