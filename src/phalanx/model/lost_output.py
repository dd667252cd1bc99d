"""The text that marks a member's reason when part of its output may be lost."""

from __future__ import annotations

from typing import Final

MAY_BE_LOST: Final = "output may be lost"
"""The text that the reason of a member contains if its output may be incomplete."""
