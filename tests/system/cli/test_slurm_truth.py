"""How jobs ended, which array tasks exist, and what ends an input: reported as Slurm reports it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.polling import eventually
from tests.system.cli.conftest import COMMAND
from tests.system.cli.test_slurm import Slurm


@pytest.fixture(scope="module")
def slurm():
    slurm = Slurm()
    ours = Path(slurm.commands, "phalanx")
    ours.write_text(f"#!{sys.executable}\n{COMMAND}\n")
    ours.chmod(0o755)
    try:
        yield slurm
    finally:
        slurm.machine.end()


def submitted(slurm, *options, code=0):
    done = slurm("sbatch", "--parsable", "-o", "/dev/null", *options)
    assert done.returncode == code, done.stderr
    return done.stdout.strip()


def ended(slurm, job):
    """Return the exit codes of the job, its script and its steps, as id -> CODE:SIGNAL."""
    listed = slurm("sacct", "-nPj", job, "-o", "jobid,exitcode").stdout.split()
    return dict(line.split("|") for line in listed)


@pytest.mark.parametrize(
    ("script", "waited", "code"),
    [
        ("exit 7", 7, "7:0"),
        ("exit 137", 137, "137:0"),
        ("exit 143", 143, "143:0"),
        ("exit 255", 255, "255:0"),
        ("kill -9 $$", 1, "0:9"),
        ("kill -USR1 $$", 1, "0:10"),
        ("sh -c 'kill -9 $$'; exit $?", 137, "137:0"),
    ],
)
def test_an_exit_code_is_no_signal(slurm, script, waited, code):
    job = submitted(slurm, "--wait", "--wrap", script, code=waited)
    assert f" ExitCode={code}" in slurm("scontrol", "show", "job", job).stdout
    assert ended(slurm, job) == {job: code, f"{job}.batch": code}
    number, _, signal = code.partition(":")
    for command in (("sacct", "-j", job, "--json"), ("squeue", "-t", "all", "-j", job, "--json")):
        (told,) = json.loads(slurm(*command).stdout)["jobs"]
        assert told["exit_code"]["return_code"]["number"] == int(number)
        assert told["exit_code"]["signal"]["id"]["number"] == int(signal)
    slurm.machine.done("delete", job)  # from now on the history alone tells of it
    assert ended(slurm, job) == {job: code, f"{job}.batch": code}


def test_an_exit_code_of_a_step_is_no_signal(slurm):
    script = "srun sh -c 'exit 200'; srun sh -c 'kill -11 $$'; srun -n2 sh -c 'exit 130'; exit 0"
    job = submitted(slurm, "--wait", "-n", "2", "--wrap", script)
    steps = {f"{job}.0": "200:0", f"{job}.1": "0:11", f"{job}.2": "130:0"}
    assert ended(slurm, job) == {job: "0:0", f"{job}.batch": "0:0", **steps}


def test_an_exit_code_of_an_element_is_no_signal(slurm):
    script = "[ $SLURM_ARRAY_TASK_ID = 1 ] && exit 137; kill -9 $$"
    job = submitted(slurm, "--wait", "--array", "1-2", "--wrap", script, code=137)
    found = ended(slurm, job)
    assert (found[f"{job}_1"], found[f"{job}_2"]) == ("137:0", "0:9")
    submitted(slurm, "--wait", "--array", "2", "--wrap", script, code=1)


@pytest.mark.parametrize(
    ("array", "shown", "each"),
    [
        ("1,3,5-7,20", "1,3,5-7,20", [1, 3, 5, 6, 7, 20]),
        ("1-9:4", "1,5,9", [1, 5, 9]),
        ("0-20:5", "0-20:5", [0, 5, 10, 15, 20]),
        ("2-5%2", "2-5%2", [2, 3, 4, 5]),
        ("1,4%1", "1,4%1", [1, 4]),
    ],
)
def test_the_elements_of_an_array_are_those_that_there_are(slurm, array, shown, each):
    job = submitted(slurm, "--hold", "--array", array, "--wrap", "true")
    assert slurm("squeue", "-h", "-j", job, "-o", "%i").stdout == f"{job}_[{shown}]\n"
    listed = slurm("squeue", "-h", "-r", "-j", job, "-o", "%i").stdout.split()
    assert listed == [f"{job}_{index}" for index in each]
    (row,) = json.loads(slurm.machine.done("jobs", job, "--json"))
    assert (row["name"], row["elements"]) == (f"{job}[{shown.partition('%')[0]}]", len(each))
    assert slurm("scancel", f"{job}_[{shown.partition('%')[0]}]").returncode == 0
    eventually(lambda: slurm.machine.jobs()[job]["state"] == "Failed")


@pytest.mark.parametrize(
    ("command", "given", "said"),
    [
        ("srun -n1 cat </dev/null", "x", ""),
        ("srun -n1 cat <&-", "x", ""),
        ("srun -n1 cat", "", ""),
        ("srun -n1 cat", "a\nb\n", "a\nb\n"),
        ("srun -n3 -l cat | sort", "a\n", "0: a\n1: a\n2: a\n"),
        ("srun -n3 -l --input=1 cat", "a\n", "1: a\n"),
        ("srun -n2 --input=none cat", "a\n", ""),
        ("srun -n2 -l --input=/dev/null cat", "a\n", ""),
        ("echo in >file; srun -n2 -l --input=file cat | sort", "a\n", "0: in\n1: in\n"),
        ("srun -n2 sh -c 'read x; echo $x'", "a\nb\n", "a\na\n"),
        ("salloc -Q -n2 sh -c 'srun -n2 cat' ", "a\n", "a\na\n"),
        ("phalanx alloc --quiet -- sh -c 'phalanx step -- cat'", "a\n", "a\n"),
        ("phalanx run --pty --quiet -- cat", "", ""),
    ],
)
def test_an_input_reaches_all_tasks_and_ends(slurm, command, given, said):
    done = slurm("sh", "-c", command, given=given)
    assert (done.stdout.replace("^D\b\b", ""), done.returncode) == (said, 0), done.stderr


def test_a_program_that_reads_in_a_script_comes_to_the_end(slurm):
    script = "srun cat; echo a | srun -n2 cat; srun -n2 --input=none cat; exit 0"
    job = submitted(slurm, "--wait", "-n", "2", "--wrap", script)
    assert ended(slurm, job)[job] == "0:0"


def test_an_input_for_no_task_is_refused(slurm):
    done = slurm("srun", "-n2", "--input=2", "cat")
    assert (done.returncode, "the tasks are 0 to 1" in done.stderr) == (1, True)
    done = slurm("srun", "-n2", "--input=nowhere", "cat")
    assert (done.returncode, "--input=nowhere: No such file" in done.stderr) == (1, True)


@pytest.mark.parametrize("command", ["sacct", "squeue", "sinfo", "sshare", "sprio"])
def test_a_stray_word_is_refused(slurm, command):
    done = slurm(command, "stray")
    assert (done.returncode, done.stdout) == (1, "")
    assert "stray: only options are taken" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("sbatch", "-p", "nowhere", "--wrap", "true"),
        ("sbatch", "-n", "900", "--wrap", "true"),
        ("srun", "-n", "900", "true"),
    ],
)
def test_what_the_head_refuses_is_an_error_in_the_form_of_slurm(slurm, words):
    done = slurm(*words)
    assert done.returncode != 0
    assert done.stderr.startswith(f"{words[0]}: error: "), done.stderr


def test_nodes_of_this_machine_have_names_in_every_listing(slurm):
    """All nodes here have the address 127.0.0.1, which does not distinguish them from nodes of
    other machines.
    """
    names = {row["name"] or row["hostname"] for row in slurm.machine.status()["nodes"]}
    assert set(slurm("sinfo", "-hN", "-o", "%N").stdout.split()) == names
    assert set(slurm("sinfo", "-hs", "-o", "%N").stdout.strip().split(",")) == names
    job = submitted(slurm, "-w", min(names), "--wrap", "sleep 100")
    eventually(lambda: slurm("squeue", "-hj", job, "-o", "%t").stdout == "R\n")
    (where,) = slurm("squeue", "-hj", job, "-o", "%N").stdout.split()
    assert where in names
    for one in names:
        assert f"NodeName={one} " in slurm("scontrol", "show", "node", one).stdout
        there = slurm("squeue", "-hj", job, "-w", one, "-o", "%i").stdout.split()
        assert there == ([job] if one == where else [])
    slurm("scancel", job)


def test_blanks_in_lists_are_no_part_of_names(slurm):
    job = submitted(slurm, "--wait", "--wrap", "true", "-J", "spaced")
    held = submitted(slurm, "--hold", "--wrap", "true")
    for ids in (f" {job}", f"{job} ", f"{held}, {job}"):
        assert job in slurm("sacct", "-Xnj", ids, "-o", "jobid").stdout.split()
        assert f"JobId={job} " in slurm("scontrol", "show", "job", ids).stdout
    assert slurm("sacct", "-Xnj", job, "--name", " spaced").stdout != ""
    assert slurm("sacct", "-Xnj", job, "-s", "failed, completed").stdout != ""
    assert (
        slurm("squeue", "-h", "-j", f" {held}", "-t", " pending", "-o", "%i").stdout == f"{held}\n"
    )
    assert slurm("squeue", "-h", "-p", "other, default", "-o", "%i").stdout == f"{held}\n"
    assert slurm("scancel", f" {held}").returncode == 0
    eventually(lambda: slurm.machine.jobs()[held]["state"] == "Terminated")


@pytest.mark.parametrize("command", ["sacct", "squeue"])
def test_a_list_without_any_id_does_not_mean_all(slurm, command):
    done = slurm(command, "-j", " ,")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Invalid job id specified" in done.stderr
