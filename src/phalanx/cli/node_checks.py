"""Options of `phalanx start` for a node's health checks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phalanx.node.checks import CheckRules

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_LEAST_S = 1.0
"""The smallest allowed time, in seconds, between two runs of a check, and the smallest time limit
of a check.
"""


def read_checks(texts: Sequence[str]) -> dict[str, str]:
    """Return the checks' commands by name.

    Raises ValueError for a text that is not NAME=COMMAND.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, _, command = text.partition("=")
        if not _NAME.fullmatch(name) or not command.strip():
            raise ValueError(
                "--check takes NAME=COMMAND, such as gpus=/usr/local/bin/check-gpus, with a name "
                f"of letters, digits, '.', '_' and '-', not {text!r}."
            )
        if name in found:
            raise ValueError(f"--check names {name} twice.")
        found[name] = command
    return found


def read_check_rules(every: str, limit: str) -> CheckRules:
    """Return how often checks run, and their time limit. Raises ValueError for an invalid
    duration.
    """
    from phalanx.manifests.times import read_length
    from phalanx.node.checks import CheckRules

    lengths = []
    for option, text in (("check-every", every), ("check-limit", limit)):
        try:
            length_s = read_length(text)
        except ValueError as error:
            raise ValueError(f"--{option}: {error}") from None
        if length_s < _LEAST_S:
            raise ValueError(f"--{option} takes at least {_LEAST_S:g} s, not {text}.")
        lengths.append(length_s)
    return CheckRules(every_s=lengths[0], limit_s=lengths[1])
