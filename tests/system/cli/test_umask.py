"""Files that work creates have the permissions that its submitter's umask gives; the daemons' own
files are private.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
os.umask(int(sys.argv[1], 8))
import phalanx
phalanx.init()

@phalanx.remote(num_cpus=0)
def write(path):
    open(path, "w").close()
    os.mkdir(path + ".d")

@phalanx.remote(num_cpus=0)
class Writer:
    def write(self, path):
        open(path, "w").close()
        os.mkdir(path + ".d")

phalanx.get(write.remote(sys.argv[2] + "/task"))
writer = Writer.remote()
phalanx.get(writer.write.remote(sys.argv[2] + "/actor"))
"""
SUBMITS = """
import os, sys
os.umask(int(sys.argv[1], 8))
sys.argv[1:2] = []
if sys.argv[1] == "srun":
    from phalanx.adapters.slurm.commands.main import main
    main(sys.argv.pop(1))
else:
    from phalanx.cli import main
    main()
"""
WRITE = "open('{0}', 'w').close(); import os; os.mkdir('{0}.d')"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
def test_files_of_tasks_and_actors_have_the_drivers_umask(running, tmp_path, mask):
    ended = running.python(PROGRAM, f"{mask:o}", str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert {path.name: mode(path) for path in tmp_path.iterdir()} == {
        "task": 0o666 & ~mask,
        "actor": 0o666 & ~mask,
        "task.d": 0o777 & ~mask,
        "actor.d": 0o777 & ~mask,
    }


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
@pytest.mark.parametrize("kind", ["run", "batch", "srun", "manifest"])
def test_files_of_jobs_have_the_umask_of_who_submits(running, tmp_path, mask, kind):
    out = tmp_path / "out"
    name = f"umask-{kind}-{mask:o}"
    words = [sys.executable, "-c", WRITE.format(out)]
    if kind == "batch":
        script = tmp_path / "script.sh"
        text = f'#!/bin/sh\n#SBATCH --wait\n{sys.executable} -c "{WRITE.format(out)}"\n'
        script.write_text(text)
        printed = tmp_path / "printed"
        command = ["sbatch", "-o", str(printed), "-D", str(tmp_path), str(script)]
    elif kind == "srun":
        command = ["srun", "-n1", *words]
    elif kind == "manifest":
        manifest = tmp_path / "job.yaml"
        manifest.write_text(MANIFEST.format(name=name, words=words))
        command = ["submit", str(manifest), "--wait"]
    else:
        command = ["run", "--name", name, "--", *words]
    ended = running.python(SUBMITS, f"{mask:o}", *command)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert mode(out) == 0o666 & ~mask
    assert mode(tmp_path / "out.d") == 0o777 & ~mask
    if kind == "batch":
        assert mode(printed) == 0o666 & ~mask


MANIFEST = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}}}
spec:
  tasks:
    - name: main
      template:
        spec:
          containers:
            - {{name: main, command: {words}}}
"""


def test_what_the_daemons_write_stays_their_users_own(running):
    found = [Path(running.root), *Path(running.root).rglob("*")]
    ours = [path for path in found if not path.is_symlink() and "slurm_commands" not in path.parts]
    modes = {path: stat.S_IMODE(os.lstat(path).st_mode) for path in ours}
    assert len(modes) > 10
    assert {path: f"{one:o}" for path, one in modes.items() if one & 0o077} == {}
