"""Rules that say when the GPUs of a job count as idle: "below 5% for 30m". With ", end" added, such
a job is ended.
"""

from __future__ import annotations

import re

import msgspec

from phalanx.manifests.times import read_length
from phalanx.model.readable import length_text

ANNOTATION = "phalanx/idle-gpus"
"""The annotation of a queue that holds its rule. The value `none` means that the queue has no rule,
even if the queue above it has one.
"""
NONE = "none"
SHORTEST_S = 60.0
"""The shortest window in seconds; in a shorter window, normal pauses of a job would count as
idle.
"""
_WORDS = re.compile(r"(?:below\s+)?(\d{1,3}(?:\.\d+)?)\s*%\s+for\s+([^,]+?)\s*(,\s*end\s*)?")


class IdleRule(msgspec.Struct, frozen=True, kw_only=True):
    """The rule by which the GPUs of a job count as idle.

    The GPUs are idle if each GPU was busy for less than the part `below` (0 to 1) of the last
    `window_s` seconds. The user is then warned; with `ends`, the job is ended.
    """

    below: float
    window_s: float
    ends: bool = False

    def __str__(self) -> str:
        ends = ", end" if self.ends else ""
        return f"below {100 * self.below:g}% for {length_text(self.window_s)}{ends}"


def read_idle_rule(text: str) -> IdleRule | None:
    """Return the rule in a text; None for the text `none`. Raises ValueError for a text that is no
    rule.
    """
    if text.strip() == NONE:
        return None
    found = _WORDS.fullmatch(text.strip())
    if found is None:
        raise ValueError(
            f"a rule for idle GPUs is like 'below 5% for 30m', with ', end' to end such jobs, "
            f"or 'none', not {text!r}"
        )
    below, window_s = float(found[1]) / 100, read_length(found[2])
    if not 0 < below <= 1:
        raise ValueError(f"GPUs are idle below more than 0% and at most 100%, not {found[1]}%")
    if window_s < SHORTEST_S:
        raise ValueError(f"GPUs are idle for at least {SHORTEST_S:g} s, not {found[2]}")
    return IdleRule(below=below, window_s=window_s, ends=bool(found[3]))
