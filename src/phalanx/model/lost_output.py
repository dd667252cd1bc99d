"""The words that a member's reason has where its output is lost."""

from __future__ import annotations

from typing import Final

MAY_BE_LOST: Final = "output may be lost"
"""The part of the reason of each member whose output may be incomplete."""
