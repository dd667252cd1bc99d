"""Commands that use more memory than allowed are ended, with the reason."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tests.polling import PATIENCE_S, eventually
from tests.present import present

import phalanx
from phalanx.runtime.os.memory_use import SessionMemory

from .conftest import none_left

MIB = 2**20
HOLD = """
import os, sys
held = bytearray(os.urandom(1) * (int(sys.argv[1]) << 20))
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        break
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holding():
    """Start a program in its own Unix session. It shares this many MiB with this many child
    processes.
    """
    started = []

    def start(mib, children):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(mib), str(children)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        started.append(process)
        for _ in range(children + 1):
            present(process.stdout).readline()
        return process

    yield start
    for process in started:
        present(process.stdin).close()  # which ends all of them
        present(process.stdout).close()
        process.wait()


@pytest.mark.parametrize(
    ("mib", "children", "limit_mib", "is_above"),
    [(60, 0, 50, True), (60, 0, 100, False), (60, 4, 50, True), (60, 4, 200, False)],
)
def test_what_a_session_uses_counts_once(holding, mib, children, limit_mib, is_above):
    process = holding(mib, children)
    found = SessionMemory().above({process.pid: limit_mib * MIB})
    assert list(found) == ([process.pid] if is_above else [])
    assert all(used > limit_mib * MIB for used in found.values())


def test_a_member_above_its_limit_is_ended_and_the_job_says_so(machine):
    # It prints before it is above the limit: afterwards it may be ended at any moment.
    hog = "import time; print('begun', flush=True); held = b'x' * (80 << 20); time.sleep(1000)"
    job = phalanx.submit(
        phalanx.Job([sys.executable, "-c", hog], memory_limit=50 * MIB, max_retries=1)
    )
    assert job.wait(PATIENCE_S) == "Failed"
    told = job.describe()
    member = told["members"][0]
    assert (member["exit_code"], told["retries"]) == (137, 1)
    pattern = r"out of memory: it used \d+(\.\d+)? MiB, above its limit of 50 MiB"
    assert re.fullmatch(pattern, member["reason"])
    assert member["reason"] in told["reason"]
    assert job.logs() == "begun\n"
    job.delete()
    eventually(none_left)


def test_the_limit_of_a_manifest_counts_for_each_container(machine):
    def container(name, mib, then):
        program = f"held = b'x' * ({mib} << 20); {then}"
        return {
            "name": name,
            "command": [sys.executable, "-c", program],
            "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "50Mi"}},
        }

    spec = {
        "tasks": [
            {
                "name": "main",
                "template": {
                    "spec": {
                        "containers": [
                            container("small", 1, "__import__('time').sleep(1000)"),
                            container("large", 80, "__import__('time').sleep(1000)"),
                        ]
                    }
                },
            }
        ]
    }
    manifest = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "hog"},
        "spec": spec,
    }
    job = phalanx.submit(manifest)
    assert job.wait(PATIENCE_S) == "Failed"
    assert "above its limit of 50 MiB" in job.describe()["members"][0]["reason"]
    job.delete()
    eventually(none_left)
