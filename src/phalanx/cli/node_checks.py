"""The checks that `phalanx start` gives a node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from phalanx.cli.reach import USAGE, fail

if TYPE_CHECKING:
    from phalanx.node.checks import CheckRules

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_LEAST_S = 1.0


def read_checks(texts: Sequence[str]) -> dict[str, str]:
    """Commands by name. Ends the command for what is not NAME=COMMAND."""
    found: dict[str, str] = {}
    for text in texts:
        name, _, command = text.partition("=")
        if not _NAME.fullmatch(name) or not command.strip():
            fail(
                "--check takes NAME=COMMAND, as gpus=/usr/local/bin/check-gpus, and a name of "
                f"letters, digits, '.', '_' and '-', not {text!r}.",
                USAGE,
            )
        if name in found:
            fail(f"--check names {name} twice.", USAGE)
        found[name] = command
    return found


def read_check_rules(every: str, limit: str) -> CheckRules:
    """How checks run. Ends the command for what is no length of time."""
    from phalanx.manifests.times import read_length
    from phalanx.node.checks import CheckRules

    lengths = []
    for option, text in (("check-every", every), ("check-limit", limit)):
        try:
            length_s = read_length(text)
        except ValueError as error:
            fail(f"--{option}: {error}", USAGE)
        if length_s < _LEAST_S:
            fail(f"--{option} is {_LEAST_S:g} s at least, not {text}.", USAGE)
        lengths.append(length_s)
    return CheckRules(every_s=lengths[0], limit_s=lengths[1])
