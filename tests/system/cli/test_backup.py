"""`phalanx backup` and `restore` under running jobs."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from tests.polling import eventually
from tests.ports import free_port

from phalanx.runtime.os.session import started_at


def job_pid(path: Path) -> int:
    """Return the process id that a job's command has written to a file."""
    return int(eventually(lambda: path.read_text() if path.exists() else "", path.name))


def submit(machine: Any, name: str) -> int:
    """Start a job that writes its process id and sleeps; return that process id."""
    file = Path(machine.directory) / name
    line = f"echo $$ > {file}.new; mv {file}.new {file}; exec sleep 1000"
    machine.done("run", "--detach", "--name", name, "--", "sh", "-c", line)
    return job_pid(file)


def test_running_jobs_go_on_after_a_restore_and_later_ones_end(machine: Any) -> None:
    port = str(free_port())
    head = ("start", "--head", "--port", port, "--num-cpus", "3", "--num-gpus", "0")
    machine.done(*head, "--object-store-memory", "80000000")
    machine.done("queue", "create", "lab")
    machine.done("run", "--name", "early", "--", "true")
    before = submit(machine, "before")
    file = f"{machine.directory}/backup.tar"
    assert "Keep a copy of the token" in machine.done("backup", file)
    started = machine.jobs()["before"]["started"]
    after = submit(machine, "after")
    machine.done("queue", "delete", "lab")
    refused = machine.phalanx("restore", file, "--replace")
    assert (refused.returncode, "is open in process" in refused.stderr) == (1, True)

    daemon = machine.daemons()["head"]
    os.kill(daemon.pid, signal.SIGKILL)
    eventually(lambda: started_at(daemon.pid) != daemon.started, "the end of the head")
    refused = machine.phalanx("restore", file)
    assert (refused.returncode, "--replace deletes it first" in refused.stderr) == (1, True)
    assert "Start the head" in machine.done("restore", file, "--replace")
    again = machine.done(*head)
    assert "already runs here, and joins it again" in again

    eventually(lambda: machine.jobs()["before"]["state"] == "Running", "the job goes on")
    jobs = machine.jobs()
    assert set(jobs) == {"early", "before"}
    assert jobs["early"]["state"] == "Completed"
    assert jobs["before"]["started"] == started
    assert os.path.exists(f"/proc/{before}")
    eventually(lambda: not os.path.exists(f"/proc/{after}"), "the end of the later job")
    assert "lab" in machine.done("queue", "list")
    assert "early" in machine.done("history")
    assert machine.done("run", "--queue", "lab", "--", "echo", "it works") == "it works\n"
    machine.done("cancel", "before")


def test_a_store_that_is_not_there_is_said(machine: Any) -> None:
    done = machine.phalanx("backup", f"{machine.directory}/b")
    assert (done.returncode, "There is no store at" in done.stderr) == (1, True)
    done = machine.phalanx("backup", f"{machine.directory}/b", "--store", "redis://h:1/0")
    assert (done.returncode, "makes its own backups" in done.stderr) == (1, True)
    done = machine.phalanx("restore", f"{machine.directory}/b")
    assert (done.returncode, "cannot be read: No such file" in done.stderr) == (1, True)
