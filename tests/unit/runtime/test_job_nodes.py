"""How a command of a job finds the node that has started it."""

from __future__ import annotations

import pytest

from phalanx.runtime.client import own_node


@pytest.fixture(autouse=True)
def no_nodes(monkeypatch, tmp_path):
    monkeypatch.setattr("phalanx.runtime.os.session.runtime_root", lambda: str(tmp_path))
    monkeypatch.setattr(own_node, "registered", list)
    for name in ("PHALANX_FILES", "PHALANX_NODE"):
        monkeypatch.delenv(name, raising=False)


def test_a_process_that_no_job_has_started_says_so():
    with pytest.raises(ConnectionError, match="is no command of a job: neither PHALANX_FILES"):
        own_node.node_of_this_job()


@pytest.mark.parametrize(("name", "who"), [("PHALANX_FILES", ""), ("PHALANX_NODE", " n1")])
def test_a_node_that_is_not_found_has_ended_or_is_of_another_account(monkeypatch, name, who):
    monkeypatch.setenv(name, "n1")
    said = (
        f"^the node{who} of this job is not found: it has ended, or it belongs to another account"
    )
    with pytest.raises(ConnectionError, match=said):
        own_node.node_of_this_job()
