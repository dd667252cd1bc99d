"""Chooses `sacct`'s rows by its options."""

from __future__ import annotations

import re
from collections.abc import Mapping

from phalanx.adapters.slurm.commands.hostlists import expanded
from phalanx.adapters.slurm.commands.users import user_names
from phalanx.adapters.slurm.options import OptionError

CHOICES = {
    "user": "user",
    "uid": "user",
    "partition": "partition",
    "accounts": "account",
    "qos": "qos",
    "wckeys": "wckey",
    "reason": "reason",
    "constraints": "features",
    "nodelist": "nodelist",
    "nnodes": "nodes",
    "ncpus": "cpus",
}
"""For each option: the field of a row that is compared with the option's value."""
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def is_chosen(row: Mapping[str, str], asked: Mapping[str, str]) -> bool:
    """Whether the options select a job's row. Raises OptionError for an invalid range."""
    return all(
        _fits(option, row.get(field, ""), asked[option])
        for option, field in CHOICES.items()
        if option in asked
    )


def _fits(option: str, text: str, wanted: str) -> bool:
    if option in ("nnodes", "ncpus"):
        match = _RANGE.fullmatch(wanted)
        if match is None:
            raise OptionError(f"--{option}={wanted}: it takes a number, or MIN-MAX")
        low, high = match.groups()
        return int(low) <= float(text or 0) <= int(high or low)
    if option == "nodelist":
        return not set(expanded(wanted)).isdisjoint(text.split(","))
    words = {word for word in wanted.split(",") if word}
    if option in ("user", "uid"):
        words = user_names(words)
    if option == "constraints":
        return words <= set(re.split(r"[&|,]", text))
    return not words or text in words
