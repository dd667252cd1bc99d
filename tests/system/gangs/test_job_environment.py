"""A job gets a clean environment, plus the variables that its submitter named."""

from __future__ import annotations

import os

import pytest
from tests.polling import PATIENCE_S

import phalanx
from phalanx.api.jobs import JobHandle
from phalanx.runtime.os.commands import inherited
from phalanx.runtime.os.environment import ADDED, child_environment


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


@pytest.mark.parametrize("path", [None, "/own", "/own:/more"])
def test_what_lies_beside_us_is_on_the_path_of_our_processes_alone(monkeypatch, path):
    """The packages that are installed beside Phalanx are on the import path of its own processes
    only. A job may use another Python, which could not import them.
    """
    if path is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", path)
    ours = child_environment()
    assert ours["PYTHONPATH"].endswith("" if path is None else f":{path}")
    assert ours["PYTHONPATH"] != path
    monkeypatch.setenv("PYTHONPATH", ours["PYTHONPATH"])
    monkeypatch.setenv(ADDED, ours[ADDED])
    assert child_environment() == ours, "a child of a child has it once"
    assert inherited(ours).get("PYTHONPATH") == path
    assert ADDED not in inherited({**ours, "PHALANX_JOB_ENV": "*"})


def test_neither_jobs_nor_tasks_have_our_path(machine):
    job = phalanx.submit(phalanx.Job(["env"]))
    task = phalanx.remote(lambda: dict(os.environ)).remote()
    assert job.wait(PATIENCE_S) == "Completed"
    path = os.environ.get("PYTHONPATH")
    assert phalanx.get(task).get("PYTHONPATH") == path
    lines = [line for line in job.logs().splitlines() if line.startswith("PYTHONPATH=")]
    assert lines == ([] if path is None else [f"PYTHONPATH={path}"])
    job.delete()


def test_a_job_sees_what_was_named_and_nothing_of_who_started_its_node(machine):
    assert any(name.startswith("PYTEST") for name in os.environ), "what the node was started with"
    job = phalanx.submit(phalanx.Job(["env"], env={"WORD": "hi"}))
    assert job.wait(PATIENCE_S) == "Completed"
    lines = job.logs().splitlines()
    assert "WORD=hi" in lines
    assert f"PATH={os.environ['PATH']}" in lines
    assert not [line for line in lines if line.startswith("PYTEST")]
    job.delete()


def test_host_files_are_found_where_volcano_has_them(machine, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("""
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: hosts}
spec:
  plugins: {tensorflow: [--ps=ps, --worker=worker]}
  tasks:
  - name: ps
    replicas: 1
    template: {spec: {containers: [{name: c, command: [cat, /etc/volcano/worker.host]}]}}
  - name: worker
    replicas: 1
    template:
      spec:
        containers:
        - name: c
          command: [sh, -c, 'cat "$LIST"; echo "$TF_CONFIG"']
          env: [{name: LIST, value: /etc/volcano/ps.host}]
""")
    (job,) = phalanx.submit_manifests(file)
    assert isinstance(job, JobHandle)
    assert job.wait(PATIENCE_S) == "Completed"
    assert job.logs("ps-0").split() == ["127.0.0.1"]
    address, config = job.logs("worker-0").splitlines()
    assert address == "127.0.0.1"
    assert '"task": {"type": "worker", "index": 0}' in config
    job.delete()
