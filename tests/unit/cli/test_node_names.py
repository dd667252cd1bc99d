"""Commands about a node print its name as `phalanx nodes` lists it, not its id."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from phalanx.cli import cluster, cordons, draining, node_names
from phalanx.cli.node_names import find_named
from phalanx.cli.typer_app import app
from phalanx.model.rows.cluster import NodeInfo
from phalanx.protocol.requests.cluster import ChangeTotals, GetStatus
from phalanx.protocol.requests.reservations import ListReservations, Reserve

ID = "92e658a49429f99bdb0c6784dde5d84425111cc81a3b7e2e53633cda"
OTHER = "a" * 56


def row(node_id: str, name: str, **more: Any) -> NodeInfo:
    return NodeInfo(
        node_id=node_id, state="ALIVE", reason="", host="127.0.0.1", port=1, hostname=name,
        total={}, available={}, labels={}, running=0, waiting=0, devices={}, **more,
    )  # fmt: skip


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> list[NodeInfo]:
    rows = [row(ID, "second"), row(OTHER, "first")]
    answers: dict[type, Any] = {
        GetStatus: SimpleNamespace(nodes=rows),
        ListReservations: [],
        Reserve: SimpleNamespace(begin=0.0, end=None),
        ChangeTotals: None,
    }

    def ask(_address: str | None, request: Any, **_: Any) -> Any:
        return answers.get(type(request), True)

    for module in (cluster, cordons, draining, node_names):
        monkeypatch.setattr(module, "ask", ask)
    return rows


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("drain", "Node second drains."),
        ("drain {} --deadline 1h", "Node second drains; work that still runs there"),
        ("drain {} --at now+1h", "Node second drains from "),
        ("undrain", "Node second takes work again."),
        ("cordon", "Node second is cordoned."),
        ("cordon {}/gpu0", "gpu0 of node second is cordoned."),
        ("uncordon", "Node second takes work again."),
        ("uncordon {}/gpu0", "gpu0 of node second may be used again."),
        ("set-resource {} CPU=3", "Node second now offers CPU=3."),
    ],
)
def test_a_command_prints_the_name_of_its_node(command: str, said: str) -> None:
    for given in ("second", ID, ID[:6]):
        words = (command if "{}" in command else command + " {}").format(given).split()
        ended = CliRunner().invoke(app, words)
        assert ended.exit_code == 0, ended.output
        assert ended.stdout.startswith(said)
        assert ID not in ended.stdout


def test_a_hold_that_remains_is_told_with_the_name(nodes: list[NodeInfo]) -> None:
    nodes[0] = row(ID, "second", holds=[("check", "bad", "", 0.0, 0.0)])
    ended = CliRunner().invoke(app, ["undrain", "second"])
    assert ended.stdout.startswith("Node second still takes no new work (check)")


def test_nodes_of_one_name_are_told_by_their_ids(nodes: list[NodeInfo]) -> None:
    nodes[1] = row(OTHER, "second")
    assert find_named(None, ID) == (ID, ID[:12])
