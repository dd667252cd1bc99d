"""The operands of `scontrol update NodeName=...`, and the names of nodes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.adapters.slurm.commands import asked_nodes
from phalanx.adapters.slurm.commands.hostlists import name_of
from phalanx.adapters.slurm.commands.node_states import Change, read_change


@pytest.mark.parametrize(
    ("operands", "change"),
    [
        ("NodeName=n1 State=DRAIN Reason=disks", Change(("n1",), True, "disks")),
        ("nodename=n[1-2],m state=drain reason=x", Change(("n1", "n2", "m"), True, "x")),
        ("State=RESUME NodeName=n1", Change(("n1",), False, "")),
        ("NodeName=n1 State=undrain Reason=mended", Change(("n1",), False, "")),
    ],
)
def test_nodes_drain_and_resume(operands: str, change: Change) -> None:
    assert read_change(operands.split()) == change


@pytest.mark.parametrize(
    ("operands", "reason"),
    [
        ("NodeName=n1 State=DRAIN", "You must specify a reason when DRAINING a node"),
        ("NodeName=n1 State=DRAIN Reason=", "You must specify a reason when DRAINING a node"),
        ("NodeName=n1", "update State=: the states are DRAIN and RESUME"),
        ("NodeName=n1 State=DOWN Reason=x", "update State=DOWN: `phalanx drain NODE --deadline"),
        ("NodeName=n1 State=MIXED", "update State=MIXED: the states are DRAIN and RESUME"),
        ("NodeName=n1 Weight=3", "update Weight=3: only State and Reason of nodes"),
        ("NodeName= State=RESUME", "update: give NodeName=NAME"),
    ],
)
def test_other_changes_of_nodes_are_refused(operands: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_change(operands.split())
    assert str(caught.value).startswith(reason)


def test_every_name_of_a_node_leads_to_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = {"kubernetes.io/hostname": "vm"}
    node: Any = SimpleNamespace(
        host="127.0.0.1", hostname="box-2", name="box-2", labels=labels, state="ALIVE", total={}
    )
    monkeypatch.setattr(asked_nodes, "_nodes", lambda: [node])
    found = asked_nodes.AskedNodes({"nodelist": "box-2"})
    assert found.hosts["box-2"] == found.hosts["127.0.0.1"] == "vm"
    assert name_of(node) == "box-2"
