"""The annotations that Slurm's options set on jobs, and a check of options' values for all
commands.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.adapters.slurm.options import OptionError

CLUSTER = "phalanx"
"""The name of the only cluster."""
NOTE = "slurm/"
"""The prefix of the annotations of jobs that were submitted with Slurm's options."""


def check_words(asked: Mapping[str, str]) -> None:
    """Raise OptionError for a value of Slurm that Phalanx does not support."""
    allowed = {
        "clusters": (CLUSTER, "all"),
        "kill-on-invalid-dep": ("yes",),
        "distribution": ("block", "block:block", "block:cyclic", "*", "pack", "nopack"),
        "exclusive": ("", "user", "mcs"),
    }
    for option, values in allowed.items():
        if asked.get(option, values[0]) not in values:
            there = " or ".join(value for value in values if value)
            raise OptionError(f"--{option}={asked[option]} is not supported; only {there} is")
