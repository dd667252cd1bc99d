"""Counts how often parts of a node were killed and started again. Parts are processes other than
the node's own.
"""

from __future__ import annotations

from phalanx.node.notes import Note
from phalanx.observe.log_lines import WARNING


class KilledParts:
    """The killed parts of a node, for its log and its reports."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self.count = 0
        """How often a part was killed since the node's process began."""
        self.last = ""
        """A clause about the last part that was killed."""

    def killed(self, part: str, gone_on: str, how: str = "was killed") -> None:
        """Note that a part has ended and is started again. `gone_on`: a clause that says what
        continued meanwhile. `how`: a clause that says how the part has ended.
        """
        self.count += 1
        self.last = f"its {part} {how} and is started again; {gone_on}"
        self._note(self.last, level=WARNING)
