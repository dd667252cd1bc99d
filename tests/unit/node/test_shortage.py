"""How long a node begins nothing new after it could not start commands because it had run out of
something.
"""

from __future__ import annotations

import pytest

from phalanx.node.shortage import LONGEST_REST_S, Shortage


class Node:
    def __init__(self):
        self.now = 100.0
        self.shortage = Shortage(lambda: self.now, lambda text, **about: None)

    def rest_s(self):
        """Let a start fail; return the number of whole seconds for which the node then rests."""
        began = self.now
        self.shortage.failed("no memory")
        while self.shortage.trouble:
            self.now += 1.0
            self.shortage.tick(self.now)
        return self.now - began


def test_rests_grow_while_no_command_begins():
    node = Node()
    assert [node.rest_s() for _ in range(9)] == [1, 2, 4, 8, 16, 32, *[LONGEST_REST_S] * 3]
    node.shortage.began()
    assert node.rest_s() == 1


def test_what_was_ordered_before_a_rest_fails_together():
    node = Node()
    for _ in range(100):
        assert node.shortage.failed("no memory") == "commands cannot be started (no memory)"
        node.shortage.began()
    node.shortage.tick(node.now + 1.0)
    assert node.rest_s() == 2


@pytest.mark.parametrize("seconds", [0.0, 0.99])
def test_a_rest_is_not_over_before_its_end(seconds):
    node = Node()
    node.shortage.failed("no memory")
    node.shortage.tick(node.now + seconds)
    assert node.shortage.trouble
