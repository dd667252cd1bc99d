"""docs/howto/slurm.md has a row for every option of Slurm's commands, accepted or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.adapters.slurm.commands.accounts import SACCTMGR
from phalanx.adapters.slurm.commands.control import SCONTROL, SEFF
from phalanx.adapters.slurm.commands.running import COMMANDS
from phalanx.adapters.slurm.commands.sacct import SACCT
from phalanx.adapters.slurm.commands.scancel import SCANCEL
from phalanx.adapters.slurm.commands.sinfo import SINFO
from phalanx.adapters.slurm.commands.squeue import SQUEUE
from phalanx.adapters.slurm.options import ALLOCATION, BATCH, RESOURCES, STEP

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "slurm.md").read_text()
SHARED = set(RESOURCES)
LISTS = {
    "## Options of jobs": RESOURCES,
    "### sbatch": [one for one in BATCH if one not in SHARED],
    "### srun": [one for one in STEP if one not in SHARED],
    "### salloc": [one for one in ALLOCATION if one not in SHARED],
    "## squeue": SQUEUE,
    "## sacct": SACCT,
    "## sinfo": SINFO,
    "## scancel": SCANCEL,
    "## scontrol": SCONTROL,
    "## seff": SEFF,
    "## sacctmgr": SACCTMGR,
}


@pytest.mark.parametrize("title", LISTS)
def test_every_option_has_its_row(title: str) -> None:
    section = PAGE.partition(f"\n{title}")[2].partition("\n#")[0]
    for one in LISTS[title]:
        short = f", `-{one.short}`" if one.short else ""
        word = "refused" if one.refused else "different" if one.note else "same"
        word = "no effect" if one.is_ignored else word
        assert f"| `--{one.long}`{short} | {word} | {one.refused or one.note} |" in section


def test_every_command_is_named() -> None:
    assert all(name in PAGE for name in COMMANDS)
