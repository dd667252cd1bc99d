"""The rows that a node gets when it asks the head for its view of the cluster: about other nodes,
and about itself.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from phalanx.node import spillback_planner
from phalanx.node.spillback_planner import ViewRefresh
from phalanx.protocol.cluster_messages import View, ViewRow
from phalanx.protocol.requests.view import ViewChanges

ME, OTHER = b"node-a", b"node-b"


def row(prefix: bytes, state: str) -> ViewRow:
    return ViewRow(prefix.hex(), prefix, "10.0.0.1", 7, state, {}, {}, labels={})


def test_an_answer_says_nothing_of_the_node_that_asks(monkeypatch):
    """The head makes an answer, writes what the answer depends on, and then sends it. In between
    the head may have told the node something newer, for example that the node no longer drains,
    which the answer would undo.
    """
    asked: list[Any] = []
    views: list[View] = []
    monkeypatch.setattr(
        spillback_planner, "ask", lambda control, node, request, then: asked.append(then)
    )
    control: Any = SimpleNamespace(is_connected=True)
    refresh = ViewRefresh(ME + bytes(10), control, views.append)
    assert refresh.request_if_old(1.0)
    asked.pop()(lambda: ViewChanges(7, [row(ME, "DRAINING"), row(OTHER, "ALIVE")]))
    assert [[one.prefix for one in view.rows] for view in views] == [[OTHER]]
