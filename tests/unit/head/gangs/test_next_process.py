"""Members continue at the next process of their node, unless their work was given to another node
meanwhile.
"""

from __future__ import annotations

import msgspec
import pytest

from phalanx.head.gangs.binder import goes_on
from phalanx.head.gangs.member_states import (
    CANCELLED,
    DONE,
    ENDING,
    EVICTED,
    HELD,
    LEAVING,
    OVER,
    PLACING,
    WAITING,
)
from phalanx.head.joining import is_next_process
from phalanx.head.nodes.record import NodeRecord
from phalanx.model.machines import MachineShare

from .test_parts import gang as plain_gang


@pytest.mark.parametrize(
    ("state", "node", "number", "is_committed", "is_removed", "expected"),
    [
        (HELD, "old", 3, True, False, True),
        (EVICTED, "old", 3, True, False, True),
        (OVER, "old", 3, True, False, True),
        (HELD, "old", 3, False, False, False),
        (HELD, "old", 3, True, True, False),
        (HELD, "old", 4, True, False, False),
        (HELD, "elsewhere", 3, True, False, False),
        (WAITING, "", 3, True, False, False),
        (PLACING, "old", 3, True, False, False),
        (CANCELLED, "old", 3, True, False, False),
        (LEAVING, "old", 3, True, False, False),
        (ENDING, "old", 3, True, False, False),
        (DONE, "", 3, True, False, False),
    ],
)
def test_which_members_go_on(state, node, number, is_committed, is_removed, expected):
    gang = plain_gang(1, size=1)
    gang.is_removed = is_removed
    member = gang.members[0]
    member.state, member.node, member.number = state, node, number
    assert goes_on(gang, 0, "old", 3, is_committed) is expected
    assert not goes_on(gang, 1, "old", 3, is_committed)


OLD = NodeRecord(
    node_id="old", prefix=b"old---", host="h", port=1, machine=MachineShare("boot", {}), name="n"
)


@pytest.mark.parametrize(
    ("changes", "is_connected", "expected"),
    [
        ({}, False, True),
        ({}, True, False),
        ({"node_id": "old"}, False, False),
        ({"name": "other"}, False, False),
        ({"machine": MachineShare("another boot", {})}, False, False),
        ({"machine": None}, False, False),
    ],
)
def test_which_node_is_the_next_process_of_another(changes, is_connected, expected):
    new = msgspec.structs.replace(OLD, **{"node_id": "new", **changes})
    assert is_next_process(OLD, new, is_connected) is expected
