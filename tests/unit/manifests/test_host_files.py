"""Host files of the svc plugin: which files a command may name, and what is refused."""

from __future__ import annotations

import json

import pytest
import yaml

from phalanx.manifests.check import check_manifests


def job(plugins: str, command: str, variable: str = "x") -> str:
    container = {
        "name": "c",
        "command": ["sh", "-c", command],
        "env": [{"name": "A", "value": variable}],
    }
    task = {"name": "my-ps", "replicas": 1, "template": {"spec": {"containers": [container]}}}
    return json.dumps(
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "j"},
            "spec": {"plugins": yaml.safe_load(plugins), "tasks": [task]},
        }
    )


def reasons(text: str) -> list[str]:
    _, report = check_manifests(text)
    return [one.reason for one in report.errors if "/etc/volcano" in one.reason]


@pytest.mark.parametrize("plugins", ["{svc: []}", "{tensorflow: []}", "{mpi: [--master=my-ps]}"])
def test_files_of_the_job_may_be_named(plugins: str) -> None:
    assert (
        reasons(job(plugins, "cat /etc/volcano/my_ps.host; ls /etc/volcano", "/etc/volcano")) == []
    )


def test_files_need_the_plugin() -> None:
    said = "the plugin svc, which writes the host lists in /etc/volcano, is not used"
    assert reasons(job("{env: []}", "cat /etc/volcano/my_ps.host")) == [said]
    assert reasons(job("{env: []}", "true", "/etc/volcano/my_ps.host")) == [said]


def test_a_file_that_the_job_will_not_have_is_refused_with_the_nearest() -> None:
    said = "there is no /etc/volcano/myps.host; did you mean 'my_ps.host'? The job has my_ps.host"
    assert reasons(job("{svc: []}", "cat /etc/volcano/myps.host")) == [said]
    assert reasons(job("{svc: []}", "cat /etc/volcano/hostfile")) == [
        "there is no /etc/volcano/hostfile. The job has my_ps.host"
    ]
    assert reasons(job("{mpi: [--master=my-ps]}", "cat /etc/volcano/hostfile")) == []
