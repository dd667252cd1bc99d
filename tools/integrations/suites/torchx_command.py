"""TorchX's own command with Phalanx's scheduler: the words that a user types, and the output."""

import os
import subprocess
import sys

import pytest
from torchx.schedulers import DEFAULT_SCHEDULER_MODULES, get_scheduler_factories

TORCHX = os.path.join(os.path.dirname(sys.executable), "torchx")
SAY = ("utils.sh", "sh", "-c", "echo said by $PHALANX_JOB")
FAIL = ("utils.sh", "sh", "-c", "exit 3")


def torchx(*words, code=0):
    """Run the command; return its output on both streams."""
    done = subprocess.run([TORCHX, *words], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def handle(printed):
    """Return the application's address in the output of `run`."""
    return next(word for word in printed.split() if word.startswith("phalanx://"))


@pytest.fixture(autouse=True)
def _on_a_cluster(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_all_of_its_own_schedulers_are_registered():
    """`pyproject.toml` repeats TorchX's default list; this fails when TorchX adds a scheduler."""
    assert DEFAULT_SCHEDULER_MODULES.keys() <= get_scheduler_factories().keys()


def test_its_own_schedulers_still_answer():
    """Ask the schedulers one by one: without Ray, TorchX 0.7.0 cannot list all options."""
    for name in ("phalanx", "local_cwd", "slurm", "kubernetes"):
        assert f"{name}:" in torchx("runopts", name)


def test_a_dry_run_shows_the_job():
    shown = torchx("run", "--scheduler", "phalanx", "--dryrun", "-cfg", "time=5m", *SAY)
    assert "apiVersion: batch.volcano.sh/v1alpha1" in shown
    assert "time: 5m" in shown


def test_run_status_log_list_and_describe():
    one = handle(torchx("run", "--scheduler", "phalanx", "--wait", *SAY))
    name = one.rsplit("/", 1)[-1]
    assert f"said by {name}" in torchx("log", one)
    assert "SUCCEEDED" in torchx("status", one)
    assert name in torchx("list", "--scheduler", "phalanx")
    assert torchx("describe", one)


def test_a_failure_is_the_status():
    one = handle(torchx("run", "--scheduler", "phalanx", "--wait", *FAIL, code=1))
    assert "FAILED" in torchx("status", one)


def test_cancel():
    one = handle(torchx("run", "--scheduler", "phalanx", "utils.sh", "sleep", "600"))
    torchx("cancel", one)
    assert "CANCELLED" in torchx("status", one)


def test_a_distributed_application_has_its_ranks():
    """Run two replicas, which print their rank and the number of ranks."""
    say = ("utils.sh", "--num_replicas", "2", "sh", "-c", "echo rank $RANK of $WORLD_SIZE")
    one = handle(torchx("run", "--scheduler", "phalanx", "--wait", *say))
    shown = torchx("log", one)
    assert "rank 0 of 2" in shown
    assert "rank 1 of 2" in shown
