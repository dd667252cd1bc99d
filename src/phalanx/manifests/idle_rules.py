"""When GPUs that a job holds count as idle, as people write it: "below 5% for 30m", "..., end"."""

from __future__ import annotations

import re

import msgspec

from phalanx.manifests.times import length_text, read_length

ANNOTATION = "phalanx/idle-gpus"
"""Of a queue; `none` is no rule, also where the queue above has one."""
NONE = "none"
SHORTEST_S = 60.0
"""A shorter window is full of pauses that mean nothing."""
_WORDS = re.compile(r"(?:below\s+)?(\d{1,3}(?:\.\d+)?)\s*%\s+for\s+([^,]+?)\s*(,\s*end\s*)?")


class IdleRule(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs of a job are idle that were all busy for less than `below` (of 1) of the time over
    `window_s` seconds. People are warned then; with `ends` the job is ended."""

    below: float
    window_s: float
    ends: bool = False

    def __str__(self) -> str:
        ends = ", end" if self.ends else ""
        return f"below {100 * self.below:g}% for {length_text(self.window_s)}{ends}"


def read_idle_rule(text: str) -> IdleRule | None:
    """The rule; None for `none`. Raises ValueError for what is none."""
    if text.strip() == NONE:
        return None
    found = _WORDS.fullmatch(text.strip())
    if found is None:
        raise ValueError(
            f"when GPUs are idle is written as 'below 5% for 30m', with ', end' to end such jobs, "
            f"or 'none', not {text!r}"
        )
    below, window_s = float(found[1]) / 100, read_length(found[2])
    if not 0 < below <= 1:
        raise ValueError(f"GPUs are idle below more than 0% and at most 100%, not {found[1]}%")
    if window_s < SHORTEST_S:
        raise ValueError(f"GPUs are idle for {SHORTEST_S:g} s at least, not {found[2]}")
    return IdleRule(below=below, window_s=window_s, ends=bool(found[3]))
