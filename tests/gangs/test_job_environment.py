"""A job has a clean environment, and what its submitter named."""

from __future__ import annotations

import os

from tests.polling import PATIENCE_S

import phalanx
from phalanx.engines.processes.commands import inherited


def test_secrets_stay_with_the_node():
    node = {
        "PATH": "/bin",
        "HOME": "/home/ann",
        "LC_ALL": "C",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "PHALANX_TOKEN": "secret",
        "LD_PRELOAD": "x",
        "PWD": "/",
        "NCCL_DEBUG": "INFO",
        "NCCL_IB": "1",
        "SITE": "lab",
    }
    assert inherited(node) == {"PATH": "/bin", "HOME": "/home/ann", "LC_ALL": "C"}
    named = inherited({**node, "PHALANX_JOB_ENV": "NCCL_*, SITE"})
    assert set(named) == {"PATH", "HOME", "LC_ALL", "NCCL_DEBUG", "NCCL_IB", "SITE"}
    assert inherited({**node, "PHALANX_JOB_ENV": ""}) == inherited(node)


def test_a_job_sees_what_was_named_and_nothing_of_who_started_its_node(machine):
    assert any(name.startswith("PYTEST") for name in os.environ), "what the node was started with"
    job = phalanx.submit(phalanx.Job(["env"], env={"WORD": "hi"}))
    assert job.wait(PATIENCE_S) == "Completed"
    lines = job.logs().splitlines()
    assert "WORD=hi" in lines
    assert f"PATH={os.environ['PATH']}" in lines
    assert not [line for line in lines if line.startswith("PYTEST")]
    job.delete()
