"""The life cycles of nodes and placement groups have no undeclared transitions, and end in the
right states.
"""

from __future__ import annotations

import pytest

from phalanx.model.lifecycle import DEAD, GROUP, NODE, REMOVED, IllegalTransition, move


@pytest.mark.parametrize(("table", "end"), [(NODE, DEAD), (GROUP, REMOVED)], ids=["node", "group"])
def test_every_state_can_be_reached_and_can_end(table, end):
    reached, todo = set(), [next(iter(table))]
    while todo:
        state = todo.pop()
        if state not in reached:
            reached.add(state)
            todo += table[state]
    assert reached == set(table)
    assert [state for state in table if not table[state]] == [end]
    assert all(end in following for state, following in table.items() if state != end)


def test_nobody_comes_back_from_the_dead():
    for state in NODE:
        with pytest.raises(IllegalTransition, match="its story"):
            move(NODE, "node", DEAD, state, "its story")
