"""The one place where sbatch's `--array` and `--dependency` become what a job is submitted with."""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.compat.slurm.options import OptionError

WHY = {
    "array": "there are no job arrays yet",
    "dependency": "jobs cannot wait for others yet; those of a JobFlow can (`phalanx submit`)",
}


def array_and_after(asked: Mapping[str, str]) -> None:
    """Refuse both. `phalanx run` is to have `--array SPEC` and `--after SPEC` for them, in Slurm's
    own syntax."""
    for name, why in WHY.items():
        if name in asked:
            raise OptionError(f"--{name} is not there: {why}.")
