"""Commands that stay in the foreground while their job runs. However such a command ends, its job
ends with it. If the job has not completed, the last line says why.
"""

from __future__ import annotations

import os
import signal

import pytest
from tests.polling import eventually
from tests.system.cli.conftest import COMMAND, PATIENCE_S, Machine
from tests.system.cli.terminals import Terminal

SRUN = "from phalanx.adapters.slurm.commands.main import main; main('srun')"
SALLOC = "from phalanx.adapters.slurm.commands.main import main; main('salloc')"
SQUEUE = "from phalanx.adapters.slurm.commands.main import main; main('squeue')"
SINFO = "from phalanx.adapters.slurm.commands.main import main; main('sinfo')"
SACCT = "from phalanx.adapters.slurm.commands.main import main; main('sacct')"
RAY = "from phalanx.adapters.ray.command.main import main; main()"
SLURM_NAMES = {SQUEUE: "squeue", SINFO: "sinfo", SACCT: "sacct"}
FULL = "The output cannot be written: No space left on device.\n"
RUNS = ("--", "sh", "-c", "echo begun; exec sleep 1000")


@pytest.fixture(scope="module")
def cluster():
    machine = Machine()
    try:
        machine.address = machine.start_head("--num-cpus", "4")
        yield machine
    finally:
        machine.end()


def state_of(machine, name):
    return machine.jobs().get(name, {"state": ""})["state"]


def newest(machine):
    return max(machine.jobs().values(), key=lambda row: row["submitted"])["name"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT])
def test_run_takes_its_job_along(cluster, number):
    process = cluster.begin(COMMAND, "run", "-n", f"ends-{number.name.lower()}", *RUNS)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number
    assert said.endswith("is cancelled\n")
    eventually(lambda: state_of(cluster, f"ends-{number.name.lower()}") == "Terminated")


@pytest.mark.parametrize("options", [("--hold",), ("--array", "0-3", "--hold")])
def test_run_takes_along_what_still_waits(cluster, options):
    name = f"waits-{len(options)}"
    process = cluster.begin(COMMAND, "run", "-n", name, *options, *RUNS)
    eventually(lambda: state_of(cluster, name) == "Pending")
    process.terminate()
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGTERM
    eventually(lambda: state_of(cluster, name) == "Terminated")


def test_run_whose_terminal_is_closed_takes_its_job_along(cluster):
    terminal = Terminal(cluster, "run", "-n", "closed", *RUNS)
    terminal.wait_for("begun")
    os.close(terminal.side)
    terminal.process.wait(PATIENCE_S)
    eventually(lambda: state_of(cluster, "closed") == "Terminated")


def test_run_that_nobody_reads_any_more_takes_its_job_along(cluster):
    words = ("run", "-n", "unread", "--", "sh", "-c", "while :; do echo more; sleep 0.1; done")
    assert cluster.without_reader(*words).returncode == 128 + signal.SIGPIPE
    eventually(lambda: state_of(cluster, "unread") == "Terminated")


def test_run_whose_output_has_no_room_takes_its_job_along(cluster):
    words = ("run", "-n", "full", "--", "sh", "-c", "while :; do echo more; sleep 0.1; done")
    with open("/dev/full", "w") as full:
        process = cluster.begin(COMMAND, *words, stdout=full.fileno())
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert said.endswith(f"{FULL}job full is cancelled\n")
    eventually(lambda: state_of(cluster, "full") == "Terminated")


@pytest.mark.parametrize("to", ["full", "nobody"])
def test_run_says_nothing_of_a_cancellation_when_its_job_is_over(cluster, to):
    words = ("run", "-n", f"over-{to}", "--quiet", "--", "echo", "all")
    if to == "full":
        with open("/dev/full", "w") as full:
            process = cluster.begin(COMMAND, *words, stdout=full.fileno())
            _, said = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, said) == (1, FULL)
    else:
        ended = cluster.without_reader(*words)
        assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (COMMAND, ("status",)),
        (COMMAND, ("nodes", "--json")),
        (COMMAND, ("jobs", "--all")),
        (COMMAND, ("--help",)),
        (COMMAND, ("status", "--help")),
        (COMMAND, ("--version",)),
        (SQUEUE, ("--help",)),
        (SQUEUE, ()),
        (SINFO, ()),
        (SACCT, ()),
        (RAY, ("status",)),
        (RAY, ("list", "nodes")),
    ],
)
def test_a_command_whose_output_has_no_room_ends_with_a_line(cluster, code, words):
    with open("/dev/full", "w") as full:
        process = cluster.begin(code, *words, stdout=full.fileno())
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert said.removeprefix(f"{SLURM_NAMES.get(code, '')}: error: ") == FULL


def test_a_job_that_is_detached_goes_on(cluster):
    cluster.done("run", "-d", "-n", "apart", *RUNS)
    eventually(lambda: state_of(cluster, "apart") == "Running")
    cluster.done("cancel", "apart")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    ("code", "words"),
    [(COMMAND, ("alloc", *RUNS)), (SALLOC, RUNS[1:]), (SRUN, RUNS[1:])],
    ids=["alloc", "salloc", "srun"],
)
def test_an_allocation_is_cancelled_with_its_command(cluster, code, words, number):
    process = cluster.begin(code, *words)
    assert process.stdout.readline() == "begun\n"
    name = newest(cluster)
    process.send_signal(number)
    out, said = process.communicate(timeout=PATIENCE_S)  # what it runs has ended, too
    assert (process.returncode, out) == (128 + number, "")
    assert f"job {name} is cancelled\n" in said
    eventually(lambda: state_of(cluster, name) == "Terminated")


@pytest.mark.parametrize(
    ("options", "command", "code", "why"),
    [
        ((), ("sh", "-c", "exit 3"), 3, "Failed: worker-0: exit code 3"),
        ((), ("sh", "-c", "kill -9 $$"), 137, "Failed: worker-0: it was ended by SIGKILL"),
        (("--retries", "1"), ("false",), 1, "exit code 1; its 1 retry is used"),
        (("--time-limit", "0.1", "--grace", "0"), ("sleep", "1000"), 124, "it ran longer than"),
        (("--time", "0:1", "--grace", "0"), ("sleep", "1000"), 124, "TimeOut: "),
        (("--array", "1-2"), ("false",), 1, "Failed: 0 of 2 array tasks completed, 2 failed"),
        (("--quiet",), ("false",), 1, "Failed: worker-0: exit code 1"),
        (("--after", "afterok:spoilt"), ("true",), 1, "DependencyFailed: it cannot start any more"),
        (
            ("--memory", "30Mi"),
            ("python3", "-c", "x = bytearray(200 << 20); import time; time.sleep(1000)"),
            137,
            "above its limit of 30 MiB",
        ),
    ],
    ids=["exit", "killed", "retries", "member", "time", "array", "quiet", "dependency", "memory"],
)
def test_the_last_line_says_why_a_job_did_not_complete(cluster, options, command, code, why):
    if "spoilt" in str(options):
        assert cluster.phalanx("run", "-n", "spoilt", "--", "false").returncode == 1
    ended = cluster.phalanx("run", *options, "--", *command)
    last = ended.stderr.splitlines()[-1]
    assert (ended.returncode, why in last) == (code, True), ended.stderr
    assert last.startswith(f"job {newest(cluster)} is ")


def test_a_job_that_completed_needs_no_word(cluster):
    ended = cluster.phalanx("run", "-n", "well", "--", "true")
    assert (ended.returncode, ended.stderr) == (0, "job well\n")


def test_a_terminal_says_it_too(cluster):
    terminal = Terminal(cluster, "run", "--pty", "-n", "short", "--", "sh", "-c", "exit 9")
    try:
        terminal.wait_for("job short is Failed: worker-0: exit code 9")
        assert terminal.code() == 9
    finally:
        terminal.close()


def test_submit_that_waits_says_it_too(cluster, tmp_path):
    manifest = tmp_path / "bad.yaml"
    manifest.write_text(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: spoils}\n"
        "spec: {tasks: [{name: a, replicas: 1, template: {spec: {restartPolicy: Never, "
        "containers: [{name: c, image: '', command: [sh, -c, exit 7]}]}}}]}\n"
    )
    ended = cluster.phalanx("submit", str(manifest), "--wait")
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("job spoils is Failed: ")
    assert last.endswith("a-0: exit code 7")


def test_repeated_dependencies_must_all_be_met(running):
    running.done("run", "--detach", "--hold", "--name", "first", "--", "true")
    running.done("run", "--detach", "--hold", "--name", "other", "--", "true")
    needs = ("--after", "afterok:first", "--after", "afterany:other")
    running.done("run", "--detach", "--name", "last", *needs, "--", "true")
    row = running.jobs()["last"]
    assert row["after"] == "afterok:default/first,afterany:default/other"
    running.done("cancel", "first", "other")
