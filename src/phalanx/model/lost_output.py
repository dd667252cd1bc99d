"""What is said of a member's output that is not where it was written to."""

from __future__ import annotations

from typing import Final

MAY_BE_LOST: Final = "output may be lost"
"""Part of the reason of each member of which that is so."""
