"""Names that users choose: the same rule holds for manifests, Python and the command line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import phalanx
from phalanx import Job
from phalanx.cli.typer_app import app
from phalanx.manifests.names import label_fault, object_fault, qualified_fault, subdomain_fault
from phalanx.manifests.queue_rules import QueueTree, queue_faults
from phalanx.manifests.reading import read_manifests
from phalanx.scheduler.cycle.specs import QueueSpec

HOSTILE = {
    "empty": "",
    "slash": "a/b",
    "up": "..",
    "here": ".",
    "path": "../../etc/passwd",
    "nul": "a\0b",
    "newline": "a\n",
    "too long": "a" * 300,
    "cyrillic a": "p\u0430ge",
    "full width": "\uff41",
    "dotless i": "f\u0131le",
    "other digits": "job\u0663",
    "zero width": "a\u200bb",
    "right to left": "a\u202eb",
    "escape": "\x1b[31m",
    "space": "a b",
    "dash first": "-rf",
    "markup": "<script>",
    "percent": "%2e%2e",
    "surrogate": "a\ud800",
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_name_is_refused_by_every_rule(name) -> None:
    for fault in (label_fault(name), qualified_fault(name), subdomain_fault(name)):
        assert fault is not None
        assert fault.isascii()
        assert len(fault) < 500


@pytest.mark.parametrize("kind", ["Job", "JobTemplate", "JobFlow", "CronJob", "PodGroup"])
@pytest.mark.parametrize("name", [n for n in HOSTILE if n not in ("empty", "surrogate")])
def test_a_manifest_says_which_of_its_names_is_none(kind, name) -> None:
    for key, code in (("name", "name_invalid"), ("namespace", "namespace_invalid")):
        names = {"name": "j"} | {key: HOSTILE[name]}
        text = json.dumps({"kind": kind, "metadata": names, "spec": {}})
        codes = {f.code for f in read_manifests(text)[1].errors}
        assert codes & {code, "not_yaml", "not_text", "cron_name_too_long"}
        assert object_fault(kind, names["name"], names.get("namespace", "default")) is not None


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_job_made_in_python_is_under_the_same_rule(name) -> None:
    given = {"namespace": name} if not name else {"name": name}
    with pytest.raises(ValueError, match="not a valid name"):
        Job("true", **given)
    with pytest.raises(ValueError, match="not a valid name"):
        Job("true", namespace=name)
    with pytest.raises(ValueError, match="name"):
        phalanx.create_queue(name)
    assert not phalanx.is_initialized(), "a wrong name started a runtime"
    fault = queue_faults(QueueSpec(name=name), QueueTree([]))
    assert [one.code for one in fault] == ["name_invalid"]


@pytest.mark.parametrize("name", [n for n in HOSTILE if n not in ("nul", "surrogate", "empty")])
def test_a_command_is_under_the_same_rule(name) -> None:
    done = CliRunner().invoke(app, ["run", f"--name={HOSTILE[name]}", "--", "true"])
    assert done.exit_code == 2
    assert "not a valid name" in done.stderr


def test_names_that_manifests_take_python_takes_too() -> None:
    assert Job("true", name="Train_2.b", namespace="team-1").uid == "team-1/Train_2.b"
    with pytest.raises(ValueError, match="a member's name"):
        Job("true", name="a" * 60)
