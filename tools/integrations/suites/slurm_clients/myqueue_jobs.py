"""MyQueue's command over Slurm: its configuration, tasks that depend on each other, an end."""

import os
import sys
from pathlib import Path

import pytest
from steps_of_jobs import done, until

CONFIG = """
config = {'scheduler': 'slurm', 'nodes': [('default', {'cores': 4, 'memory': '8G'})],
          'mpiexec': 'echo', 'use_mpi': False}
"""


@pytest.fixture
def mq(directory, monkeypatch):
    """Yield a function that runs MyQueue's command. Its files are in the test's directory. At the
    end, MyQueue's daemon is ended.
    """
    monkeypatch.setenv("HOME", str(directory))
    monkeypatch.setenv("USER", "root" if os.geteuid() == 0 else os.environ.get("USER", ""))
    (directory / ".myqueue").mkdir()
    (directory / ".myqueue" / "config.py").write_text(CONFIG)
    yield lambda *words: done(sys.executable, "-m", "myqueue", *words)
    done(sys.executable, "-m", "myqueue", "daemon", "stop")


def script(name, line):
    path = Path(name)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return f"shell:./{name}"


def test_tasks_run_after_each_other(mq):
    first, second = script("first.sh", "echo one >> lines"), script("second.sh", "echo 2 >> lines")
    mq("submit", first, "-R", "1:1h")
    mq("submit", second, "-R", "1:1h", "-d", "first.sh")
    until(lambda: mq("list").count("done") >= 2)
    assert Path("lines").read_text() == "one\n2\n"


def test_a_task_that_runs_is_removed(mq):
    """If a task starts before `submit` has noted it, MyQueue may miss the start, so the test asks
    squeue.
    """
    mq("submit", script("long.sh", "sleep 600"), "-R", "1:1h")
    until(lambda: done("squeue", "-ht", "R"))
    mq("remove", "-s", "qr")
    until(lambda: not done("squeue", "-h"))
