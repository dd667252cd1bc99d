"""Slurm's commands over a real cluster of two nodes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.polling import eventually
from tests.system.cli.conftest import PATIENCE_S
from tests.system.cli.slurm_machine import SlurmMachine

SCRIPT = """\
#!/bin/sh
#SBATCH --job-name=two --nodes=2 --ntasks-per-node=2
#SBATCH --output=%x-%j.out --time=5
echo script $SLURM_JOB_ID $SLURM_NTASKS $SLURM_JOB_NUM_NODES $1
srun -l sh -c 'echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID'
srun -n 1 -J apart -o step-%s-%t.out echo apart
srun sh -c 'exit $SLURM_PROCID'
echo code $?
exit 5
"""


ALONE = """\
#!/bin/bash
#SBATCH --ntasks=2 --output=alone.out
srun -l sh -c 'echo $SLURM_PROCID'
squeue -h -j $SLURM_JOB_ID -o %T
"""


class Slurm(SlurmMachine):
    """Runs Slurm's command with these words in the user's home."""

    def __call__(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return self.run(words, self.machine.home, given)


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
    assert sorted(lines) == [
        *("0: 0 0 0", "1: 1 1 0", "2: 2 0 1", "3: 3 1 1"),
        *(f"srun: error: 127.0.0.1: task {n}: Exited with exit code {n}" for n in (1, 2, 3)),
    ]
    assert code == "code 3"
    assert (home / "step-1-0.out").read_text() == "apart\n"
    row = slurm("sacct", "-X", "-n", "-P", "-j", number, "-o", "JobID,State,ExitCode,NNodes")
    assert row.stdout == f"{number}|FAILED|5:0|2\n"
    fields = "JobID,JobName,State,ExitCode,NTasks,NNodes"
    rows = slurm("sacct", "-nPj", number, "-o", fields).stdout.splitlines()
    batch = [f"{number}|two|FAILED|5:0|4|2", f"{number}.batch|batch|FAILED|5:0|1|2"]
    assert rows == [
        *batch,
        f"{number}.0|sh|COMPLETED|0:0|4|2",
        f"{number}.1|apart|COMPLETED|0:0|1|1",
        f"{number}.2|sh|FAILED|3:0|4|2",
    ]
    one = slurm("sacct", "-nPj", f"{number}.1", "-o", "JobID,AllocCPUS").stdout
    assert one == f"{number}.1|2\n"
    (told,) = json.loads(slurm("sacct", "--json", "-j", number).stdout)["jobs"]
    assert [step["step"]["name"] for step in told["steps"]] == ["batch", "sh", "apart", "sh"]
    listed = slurm.machine.done("history", number, "--steps").splitlines()
    assert [line.split()[:2] for line in listed[1:]] == [
        [f"{number}.0", "sh"],
        [f"{number}.1", "apart"],
        [f"{number}.2", "sh"],
    ]


WORDS = [
    *("*", "$((1+1))", "$(echo no)", "$(PHALANX_JOB)", "$$", "`echo no`", "$HOME"),
    *("it's", 'a "b"', "\\", "", "a  b", "~", "%j"),
]


def test_words_reach_a_program_as_they_were_given(slurm):
    """The words are passed to a batch script, to a step, and to a job without a script."""
    home = Path(slurm.machine.home)
    program = (sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))")
    line = f'{shlex.join(program)} "$@"\n'
    (home / "words.sh").write_text(f"#!/bin/sh\n{line}srun -n1 -Q {line}")
    done = slurm("sbatch", "--wait", "-o", "words.out", "words.sh", *WORDS)
    assert done.returncode == 0, done.stderr
    expected = json.dumps(WORDS)
    assert (home / "words.out").read_text().splitlines() == [expected, expected]
    assert slurm("srun", "-Q", "-n1", *program, *WORDS).stdout.splitlines() == [expected]
    printed = slurm.machine.done("run", "--name", "words", "--", *program, *WORDS)
    assert expected in printed
    slurm.machine.done("run", "--name", "shown", "--", "true", "a  b", "$HOME", "$$")
    (row,) = json.loads(slurm.machine.done("history", "shown", "--json"))
    assert row["command"] == "true 'a  b' '$HOME' '$$'"


IN_DIRECTORIES = """\
#!/bin/sh
#SBATCH --output=made/%j/out/%j_0_log.out --error=made/%j/err/%j_0_log.err
echo out
echo err >&2
srun -o steps/$SLURM_JOB_ID/%t/out.txt -e steps/$SLURM_JOB_ID/%t/err.txt sh -c 'echo o; echo e >&2'
"""


def test_directories_of_output_files_are_made(slurm):
    home = Path(slurm.machine.home)
    (home / "deep.sh").write_text(IN_DIRECTORIES)
    done = slurm("sbatch", "--parsable", "--wait", "deep.sh")
    number = done.stdout.strip()
    assert done.returncode == 0, done.stderr
    assert (home / f"made/{number}/out/{number}_0_log.out").read_text() == "out\n"
    assert (home / f"made/{number}/err/{number}_0_log.err").read_text() == "err\n"
    steps = home / f"steps/{number}/0"
    assert [(steps / f"{name}.txt").read_text() for name in ("out", "err")] == ["o\n", "e\n"]
    done = slurm(
        "sbatch", "--parsable", "--wait", "-a", "1-2", "-o", "arr/%A/%a/o", "--wrap=echo e"
    )
    number = done.stdout.strip()
    assert [(home / f"arr/{number}/{i}/o").read_text() for i in (1, 2)] == ["e\n", "e\n"]


def test_steps_that_run_and_their_numbers(slurm):
    words = ("salloc", "-Q", "sh", "-c", "srun sh -c 'echo $SLURM_STEP_ID'; srun sh -c "
             "'echo $SLURM_STEPID; squeue -h -s -j $SLURM_JOB_ID -o \"%i %j %t\"'")  # fmt: skip
    first, second, running = slurm(*words).stdout.splitlines()
    job, _, _ = running.partition(".")
    assert (first, second, running) == ("0", "1", f"{job}.1 sh R")
    rows = eventually(
        lambda: [
            row
            for row in [slurm("sacct", "-nPj", job, "-o", "JobID,State").stdout.splitlines()]
            if "RUNNING" not in row[0]
        ]
    )[0]
    assert rows == [f"{job}|COMPLETED", f"{job}.0|COMPLETED", f"{job}.1|COMPLETED"]


def test_a_script_finds_srun_where_nobody_put_it_up(slurm):
    home = Path(slurm.machine.home)
    (home / "alone.sh").write_text(ALONE)
    command = (sys.executable, "-m", "phalanx", "sbatch", "--wait", "alone.sh")
    bare = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, env=slurm.machine.env | bare, cwd=home, timeout=PATIENCE_S, check=False
    )
    *steps, state = (home / "alone.out").read_text().splitlines()
    assert (sorted(steps), state, done.returncode) == (["0: 0", "1: 1"], "RUNNING", 0)


WARNED = """\
#!/bin/sh
srun sh -c 'touch begun; until [ -e go ]; do sleep 0.1; done; exit 7' &
until [ -e begun ]; do sleep 0.1; done
kill -USR2 $!
touch go
wait $!
"""


def test_srun_outlives_the_signal_that_is_meant_for_its_tasks(slurm):
    (Path(slurm.machine.home) / "warned.sh").write_text(WARNED)
    assert slurm("sbatch", "-W", "-o", "/dev/null", "warned.sh").returncode == 7


HEARS = """\
#!/bin/sh
trap 'touch batch' USR2
srun sh -c '
  trap "touch step" USR1; touch runs-$SLURM_NODEID
  until [ -e end ]; do sleep 0.1 || :; done
'
"""


def test_signals_go_to_steps_or_to_the_script_and_jobs_go_on(slurm):
    home = Path(slurm.machine.home)
    (home / "hears.sh").write_text(HEARS)
    done = slurm("sbatch", "--parsable", "-N", "2", "-o", "/dev/null", "hears.sh")
    number = done.stdout.strip()
    eventually(lambda: all((home / f"runs-{node}").exists() for node in (0, 1)))
    assert slurm("scancel", "-s", "SIGUSR1", number).returncode == 0
    eventually((home / "step").exists)
    assert slurm("scancel", "-s", "12", "--batch", number).returncode == 0
    assert slurm.machine.done("signal", number, "usr1", "--member", "batch-0").startswith(
        "1 member"
    )
    (home / "end").touch()
    eventually(lambda: slurm("squeue", "-h", "-j", number).stdout == "")
    assert (home / "batch").exists()
    rows = slurm("sacct", "-n", "-P", "-j", number, "-o", "State,ExitCode").stdout
    assert rows == "COMPLETED|0:0\n" * 3, rows
    held = slurm("sbatch", "--parsable", "-H", "-o", "/dev/null", "--wrap", "true").stdout.strip()
    for words, why in (
        (("-s", "USRX", held), "'USRX' is no signal"),
        (("-s", "USR1", held), "does not run: it is Pending"),
        (("-b", held), "give the signal"),
        ((f"{held}.0",), "a step ends with its srun"),
    ):
        ended = slurm("scancel", *words)
        assert (ended.returncode, why in ended.stderr) == (1, True), ended.stderr
    assert slurm("scancel", "-s", "KILL", held).returncode == 0


def test_tasks_without_a_script(slurm):
    done = slurm("srun", "-Q", "-n", "2", "-l", "sh", "-c", "echo out; echo err >&2; exit 4")
    assert sorted(done.stdout.splitlines()) == ["0: out", "1: out"]
    ended = "srun: error: 127.0.0.1: tasks 0-1: Exited with exit code 4"
    assert sorted(done.stderr.splitlines()) == ["0: err", "1: err", ended]
    assert done.returncode == 4
    assert slurm("srun", "-Q", "cat", given="typed").stdout == "typed"
    done = slurm("salloc", "-Q", "-n", "2", "sh", "-c", "srun -l echo $SLURM_NTASKS; exit 3")
    assert (sorted(done.stdout.splitlines()), done.returncode) == (["0: 2", "1: 2"], 3)


def test_a_node_is_drained_and_takes_work_again(slurm):
    name = slurm("sinfo", "-hN", "-o", "%N").stdout.split()[0]
    drained = ("scontrol", "update", f"NodeName={name}", "State=DRAIN", "Reason=new disks")
    assert slurm(*drained).returncode == 0
    try:
        eventually(lambda: "State=DRAINED " in slurm("scontrol", "show", "node", name).stdout)
        assert "Reason=new disks" in slurm("scontrol", "show", "node", name).stdout
    finally:
        slurm("scontrol", "update", f"nodename={name}", "state=resume")
    eventually(lambda: "State=IDLE " in slurm("scontrol", "show", "node", name).stdout)
    unknown = slurm("scontrol", "update", "nodename=nowhere", "state=resume")
    assert "Invalid node name specified" in unknown.stderr
    assert unknown.returncode == 1


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
    assert row == f"CANCELLED by {os.getuid()}\n"


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
    assert "give the id of a job" in slurm("seff").stderr
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


def test_srun_in_an_element_is_a_step_of_that_element(slurm, tmp_path):
    out = tmp_path / "step-%A-%a-%s"
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\nsrun -o {out} sh -c 'echo $SLURM_JOB_ID $SLURM_ARRAY_TASK_ID'\n")
    log = ("-o", str(tmp_path / "log"))
    done = slurm("sbatch", "--parsable", "--wait", "-a", "1-2", *log, str(script))
    number = done.stdout.strip()
    assert done.returncode == 0, (tmp_path / "log").read_text()
    found = {path.name: path.read_text() for path in tmp_path.glob("step-*")}
    assert found == {f"step-{number}-{i}-0": f"{number} {i}\n" for i in (1, 2)}
    over = slurm("srun", "--jobid", number, "true").stderr
    assert f"job {number} has no place to run in" in over


def test_one_element_is_cancelled_and_the_others_go_on(slurm, tmp_path):
    script = f"until [ -e {tmp_path}/go ]; do sleep 0.1; done"
    log = ("-o", str(tmp_path / "log"))
    number = slurm("sbatch", "--parsable", "-a", "1-2", *log, "--wrap", script).stdout.strip()
    held = ("-H", "-a", "0-3%2")
    waits = slurm("sbatch", "--parsable", *held, *log, "--wrap", "true").stdout.strip()

    def listed(*words):
        rows = slurm("squeue", "-h", "-o", "%i %T", "-j", f"{number},{waits}", *words).stdout
        found = dict(row.split() for row in rows.splitlines())
        both = {found.get(f"{number}_{index}") for index in (1, 2)}
        return found if both == {"RUNNING"} else None

    rows = eventually(listed)
    assert rows.keys() - {f"{number}_1", f"{number}_2"} == {f"{waits}_[0-3%2]"}
    assert rows[f"{waits}_[0-3%2]"] == "PENDING"
    assert {f"{waits}_{index}" for index in range(4)} < (listed("-r") or {}).keys()
    assert slurm("squeue", "-h", "-o", "%i", "-j", f"{number}_2").stdout == f"{number}_2\n"
    slurm("scancel", waits)
    refused = slurm("scancel", f"{number}_1.0").stderr
    assert "a step ends with its srun" in refused
    assert slurm("scancel", f"{number}_1").returncode == 0
    (tmp_path / "go").touch()

    def states():
        rows = slurm("sacct", "-nPXj", number, "-o", "JobID,State").stdout.splitlines()
        found = dict(row.split("|") for row in rows)
        over = {f"{number}_1", f"{number}_2"} <= found.keys()
        return found if over and "RUNNING" not in found.values() else None

    found = eventually(states)
    cancelled = f"CANCELLED by {os.getuid()}"
    assert (found[f"{number}_1"], found[f"{number}_2"]) == (cancelled, "COMPLETED")


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
    unknown = slurm("sprio", "-j", "999999")
    assert (unknown.returncode, unknown.stdout) == (
        0, "Unable to find jobs matching user/id(s) specified\n",
    )  # fmt: skip
    for option in ("-w", "-n"):
        assert slurm("sprio", option).returncode == 1
    for one in (number, waits, last):
        slurm("scancel", one)


def test_what_is_not_there_is_said(slurm):
    script = "#!/bin/sh\n#SBATCH --mail-type=END\ntrue\n"
    mail = slurm("sbatch", "-H", "--parsable", given=script)
    assert (mail.returncode, mail.stderr) == (0, "sbatch: no mail is sent\n")
    waits = slurm("sacct", "-nPXj", mail.stdout.strip(), "-o", "State,Start,End,Timelimit").stdout
    assert waits == "PENDING|Unknown|Unknown|UNLIMITED\n"
    slurm("scancel", mail.stdout.strip())
    assert "MaxRSS" in slurm("sacct", "-e").stdout.split()
    assert "STATE" in slurm("sinfo", "-Nl").stdout.splitlines()[1].split()
    done = slurm("sbatch", given="#!/bin/sh\n#SBATCH --nonsense=1\n")
    assert "option --nonsense not recognized" in done.stderr
    assert slurm("scancel", "999999").returncode == 0
    assert slurm("scancel", "nonsense").returncode == 1
    assert "default*" in slurm("sinfo").stdout
    assert "Phalanx" in slurm("sbatch", "--version").stdout


def test_installing_says_what_the_path_lacks(slurm, tmp_path):
    ours = tmp_path / "our commands"
    line = f"export PATH='{ours}':$PATH"
    assert line in slurm.machine.done("compat", "slurm", "install", str(ours))
    before = slurm.machine.env["PATH"]
    try:
        slurm.machine.env["PATH"] = f"{slurm.commands}:{before}"
        said = slurm.machine.done("compat", "slurm", "install", str(ours))
        assert f"It must stand before {slurm.commands} in your PATH: {line}" in said
        said = slurm.machine.done("compat", "slurm", "install", slurm.commands)
        assert "PATH" not in said
    finally:
        slurm.machine.env["PATH"] = before


def test_another_command_is_not_written_over(slurm, tmp_path):
    (tmp_path / "srun").write_text("another")
    refused = slurm.machine.phalanx("compat", "slurm", "install", str(tmp_path))
    assert (refused.returncode, "--force" in refused.stderr) == (2, True)
    assert (tmp_path / "srun").read_text() == "another"
