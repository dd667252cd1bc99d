"""Slurm's commands over a real cluster of two nodes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.cli.conftest import PATIENCE_S, Machine
from tests.polling import eventually

SCRIPT = """\
#!/bin/sh
#SBATCH --job-name=two --nodes=2 --ntasks-per-node=2
#SBATCH --output=%x-%j.out --time=5
echo script $SLURM_JOB_ID $SLURM_NTASKS $SLURM_JOB_NUM_NODES $1
srun -l sh -c 'echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID'
srun -n 1 -o step-%t.out echo apart
srun sh -c 'exit $SLURM_PROCID'
echo code $?
exit 5
"""


class Slurm:
    """A cluster, and Slurm's commands before all others."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.machine.start_head("--num-cpus", "4")
        self.machine.join(self.machine.status()["address"], "second", "--num-cpus", "4")
        self.commands = os.path.join(self.machine.home, "bin")
        self.machine.done("compat", "slurm", "install", self.commands)

    def __call__(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        path = f"{self.commands}:{self.machine.env['PATH']}"
        return subprocess.run(
            list(words), env=self.machine.env | {"PATH": path}, input=given, text=True,
            cwd=self.machine.home, capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def slurm():
    slurm = Slurm()
    try:
        yield slurm
    finally:
        slurm.machine.end()


def test_a_script_with_steps(slurm):
    home = Path(slurm.machine.home)
    (home / "job.sh").write_text(SCRIPT)
    done = slurm("sbatch", "--parsable", "--wait", "job.sh", "argument")
    number = done.stdout.strip()
    assert (done.returncode, number.isdecimal()) == (5, True), done.stderr
    first, *lines, code = (home / f"two-{number}.out").read_text().splitlines()
    assert first == f"script {number} 4 2 argument"
    assert sorted(lines) == ["0: 0 0 0", "1: 1 1 0", "2: 2 0 1", "3: 3 1 1"]
    assert code == "code 3"
    assert (home / "step-0.out").read_text() == "apart\n"
    row = slurm("sacct", "-X", "-n", "-P", "-j", number, "-o", "JobID,State,ExitCode,NNodes")
    assert row.stdout == f"{number}|FAILED|5:0|2\n"


def test_tasks_without_a_script(slurm):
    done = slurm("srun", "-Q", "-n", "2", "-l", "sh", "-c", "echo out; echo err >&2; exit 4")
    assert sorted(done.stdout.splitlines()) == ["0: out", "1: out"]
    assert sorted(done.stderr.splitlines()) == ["0: err", "1: err"]
    assert done.returncode == 4
    assert slurm("srun", "-Q", "cat", given="typed").stdout == "typed"
    done = slurm("salloc", "-Q", "-n", "2", "sh", "-c", "srun -l echo $SLURM_NTASKS; exit 3")
    assert (sorted(done.stdout.splitlines()), done.returncode) == (["0: 2", "1: 2"], 3)


def test_jobs_that_wait_and_end(slurm):
    one = slurm("sbatch", "--parsable", "-H", "-J", "held", "-o", "/dev/null", "--wrap", "true")
    number = one.stdout.strip()
    assert slurm("squeue", "-h", "-j", number, "-o", "%j %t %r").stdout == "held PD JobHeldUser\n"
    (row,) = json.loads(slurm("squeue", "--json", "-j", number).stdout)["jobs"]
    assert (row["job_id"], row["job_state"], row["hold"]) == (int(number), ["PENDING"], True)
    assert f"JobId={number} JobName=held" in slurm("scontrol", "show", "job", number).stdout
    slurm("scontrol", "release", number)
    eventually(lambda: slurm("squeue", "-h", "-j", number).stdout == "")
    long = slurm("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "sleep 1000").stdout.strip()
    assert slurm("scancel", long).returncode == 0
    row = eventually(lambda: slurm("sacct", "-nXPj", long, "-o", "State", "-s", "CA").stdout)
    assert row == "CANCELLED\n"


def test_what_a_job_used(slurm):
    number = slurm("sbatch", "--parsable", "-J", "used", "-o", "/dev/null", "-W", "--mem", "64M",
                   "--wrap", "sh -c 'exit 0'").stdout.strip()  # fmt: skip
    rows = eventually(
        lambda: [
            line.split("|")
            for line in slurm(
                "sacct", "-nPj", number, "-o", "JobID,State,ReqMem,CPUTimeRAW"
            ).stdout.splitlines()
            if ".batch" in line or "64M" in line
        ]
    )
    assert [row[:3] for row in rows] == [[number, "COMPLETED", "64M"],
                                         [f"{number}.batch", "COMPLETED", ""]]  # fmt: skip
    assert f"Job: {number}\n" in slurm("seff", number).stdout
    slurm("scontrol", "show", "job", number)
    assert "it takes the id of a job" in slurm("seff").stderr
    wrong = slurm("sacct", "-S", "soon")
    assert (wrong.returncode, "--starttime: a time is like 7d" in wrong.stderr) == (1, True)


def test_elements_of_an_array_know_who_they_are_and_another_job_waits_for_them(slurm, tmp_path):
    show = 'echo "$SLURM_ARRAY_JOB_ID/$SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT"'
    out = tmp_path / "%x-%A-%a-%j.out"
    wrap = ("-J", "fit", "-o", str(out), "--wrap", show)
    number = slurm("sbatch", "--parsable", "-a", "2-4:2", *wrap).stdout.strip()
    later = tmp_path / "later"
    after = ("-o", str(later), "--wrap", "echo after", "-d", f"afterok:{number}")
    assert slurm("sbatch", "--wait", *after).returncode == 0
    assert later.read_text() == "after\n"
    found = {path.name: path.read_text() for path in tmp_path.glob("*.out")}
    assert found == {f"fit-{number}-{i}-{number}_{i}.out": f"{number}/{i} of 2\n" for i in (2, 4)}


def test_shares_and_places_are_listed(slurm):
    number = slurm("sbatch", "--parsable", "-H", "--wrap", "true").stdout.strip()
    waits = slurm("sbatch", "--parsable", "-n", "8", "--wrap", "sleep 100").stdout.strip()
    last = slurm("sbatch", "--parsable", "-n", "8", "--wrap", "true").stdout.strip()
    slurm.machine.done("set-shares", "default", "alice=3")
    rows = slurm("sshare", "-n", "-P", "-u", "alice", "-o", "Account,User,RawShares,LevelFS")
    assert rows.stdout == "default|alice|3|inf\n"
    head, *lines = slurm("sprio", "-o", "%i %r %F").stdout.splitlines()
    assert head.split() == ["JOBID", "PARTITION", "FAIRSHARE"]
    assert [last, "default"] in [line.split()[:2] for line in lines]
    refused = slurm("sprio", "-j", "999999")
    assert (refused.returncode, "none of these jobs waits" in refused.stderr) == (1, True)
    for option in ("-w", "-n"):
        assert slurm("sprio", option).returncode == 1
    for one in (number, waits, last):
        slurm("scancel", one)


def test_what_is_not_there_is_said(slurm):
    done = slurm("sbatch", given="#!/bin/sh\n#SBATCH --nonsense=1\n")
    assert "option --nonsense not recognized" in done.stderr
    assert slurm("scancel", "999999").returncode == 1
    assert "default*" in slurm("sinfo").stdout
    assert "Phalanx" in slurm("sbatch", "--version").stdout


def test_another_command_is_not_written_over(slurm, tmp_path):
    (tmp_path / "srun").write_text("another")
    refused = slurm.machine.phalanx("compat", "slurm", "install", str(tmp_path))
    assert (refused.returncode, "--force" in refused.stderr) == (2, True)
    assert (tmp_path / "srun").read_text() == "another"
