"""Reasons that tell where a member's output is gone."""

from __future__ import annotations

from typing import Final

MAY_BE_LOST: Final = "output may be lost"
"""Part of the reason of each member whose output may not be whole."""
