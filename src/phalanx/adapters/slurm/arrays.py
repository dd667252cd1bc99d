"""The one place where sbatch's `--array` and `--dependency` become what a job is submitted with."""

from __future__ import annotations

import re
from collections.abc import Mapping

from phalanx.adapters.slurm.options import OptionError

_SINGLETON = re.compile(r"(^|[,?])singleton(?=$|[,?])")


def array_of(asked: Mapping[str, str], members: int) -> str | None:
    """The indices that `--array` names, as `phalanx run` takes them. Raises OptionError where
    elements would need several nodes each: those of one would be kept apart from those of others.
    """
    if "array" in asked and members > 1:
        raise OptionError(
            f"--array={asked['array']}: an element has one member here, not {members}"
        )
    return asked.get("array")


def after_of(asked: Mapping[str, str]) -> str | None:
    """What `--dependency` waits for, as `phalanx run --after` takes it. Slurm's `singleton` is of
    jobs with one name and user; here it is of jobs that say so with one word: the name."""
    written = asked.get("dependency")
    if written is None:
        return None
    word = asked.get("job-name", "")
    return _SINGLETON.sub(lambda found: f"{found[1]}singleton:{word}", written)


def array_variables(asked: Mapping[str, str], number: int) -> dict[str, str]:
    """Variables of all elements; those of each come from ours, where it starts (`sbatch`)."""
    return {"SLURM_ARRAY_JOB_ID": str(number)} if "array" in asked else {}
