"""Translation of sbatch's `--array` and `--dependency` into the fields of a job."""

from __future__ import annotations

import re
from collections.abc import Mapping

from phalanx.adapters.slurm.options import OptionError

_SINGLETON = re.compile(r"(^|[,?])singleton(?=$|[,?])")


def array_of(asked: Mapping[str, str], members: int) -> str | None:
    """Return the indices of `--array`, in the form of `phalanx run --array`; None without the
    option. Raises OptionError for array tasks with several members: the rule that would put these
    members on different nodes would also put different array tasks on different nodes.
    """
    if "array" in asked and members > 1:
        raise OptionError(
            f"--array={asked['array']}: an array task has one member here, not {members}"
        )
    return asked.get("array")


def after_of(asked: Mapping[str, str]) -> str | None:
    """Return the value of `--dependency` in the form of `phalanx run --after`; None without the
    option. Slurm's `singleton` applies to jobs of one name and user. Phalanx's `singleton` applies
    to jobs that give the same word. So the job's name is given as the word.
    """
    written = asked.get("dependency")
    if written is None:
        return None
    word = asked.get("job-name", "")
    return _SINGLETON.sub(lambda found: f"{found[1]}singleton:{word}", written)


def array_variables(asked: Mapping[str, str], number: int) -> dict[str, str]:
    """Return the variables that all array tasks share; the variables of one array task are set when
    it starts.
    """
    return {"SLURM_ARRAY_JOB_ID": str(number)} if "array" in asked else {}
