"""The states of cards give the same answers as counting each card separately."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from phalanx.model.gpu_sharing import sharing_amounts
from phalanx.scheduler.devices.cards import CardAsk, Cards, Taken, card_ask
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.plugin_parts import card_states
from phalanx.scheduler.plugin_parts.card_states import CardStates, equal_nodes

GIB = 2**30
ASKED = st.one_of(
    st.builds(
        lambda gib, n: {"gpu_memory": gib * GIB, "num_gpus": n},
        st.integers(1, 90),
        st.integers(1, 2),
    ),
    st.builds(
        lambda tenths, share: {"num_gpus": tenths / 10, "gpu_share": share},
        st.integers(1, 9),
        st.sampled_from(("time", "mps")),
    ),
    st.builds(lambda n: {"num_gpus": n}, st.integers(1, 2)),
)


@given(
    sizes=st.lists(st.sampled_from((40, 80)), min_size=1, max_size=4),
    steps=st.lists(st.one_of(ASKED, st.integers(0, 5)), max_size=25),
)
def test_states_follow_what_a_node_does(
    sizes: list[int], steps: list[dict[str, object] | int]
) -> None:
    """A step is a request for cards, or the number of an earlier request whose cards are given
    back.
    """
    memory = tuple(gib * GIB for gib in sizes)
    amounts = {"GPU": len(sizes), "gpu_memory": max(memory), "gpu_mps": 1}
    node = NodeResources(amounts, cards=Cards(memory=memory))
    states = CardStates()
    state = states.free(len(sizes), 0, Cards(memory=memory))
    held: list[tuple[Any, Any]] = []
    for step in steps:
        if isinstance(step, int):
            if step < len(held):
                given, back = held.pop(step)
                node.release(given)
                state = states.give_back(state, back)
            continue
        request = ResourceSet.from_mapping(sharing_amounts(step))
        ask = card_ask(request) or CardAsk(int(request["GPU"] // 10_000))
        found = states.rooms(np.array([state]), ask, 2).tolist()[0]
        grant = node.acquire(request)
        assert (found > 0) == (grant is not None), (step, sizes)
        if grant is not None:
            state, taken = states.take(state, ask)
            assert len(taken) == ask.count
            held.append((grant, taken))


NODES = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 2), st.lists(st.integers(0, 3), max_size=3)),
    max_size=8,
)


@example(nodes=[(0, 0, []), (0, 0, []), (0, 1, [0, 1]), (0, 1, [1, 0])], is_by_chance=False)
@given(nodes=NODES, is_by_chance=st.booleans())
def test_nodes_of_a_group_have_equal_cards_and_tasks(
    nodes: list[tuple[int, int, list[int]]], is_by_chance: bool
) -> None:
    kinds, counts = (np.array([node[i] for node in nodes], dtype=np.int64) for i in (0, 1))
    of_class = np.array([index for node in nodes for index in node[2]], dtype=np.int64)
    starts = np.array([0, *np.cumsum([len(node[2]) for node in nodes])], dtype=np.intp)
    with pytest.MonkeyPatch.context() as patch:
        if is_by_chance:
            patch.setattr(card_states, "hash", lambda _: 0, raising=False)
        first, group_of = equal_nodes(kinds, counts, of_class, starts)
    assert [nodes[first[group]] for group in group_of] == nodes
    if not is_by_chance:
        assert len(first) == len({repr(node) for node in nodes})


def test_a_request_without_room_changes_nothing() -> None:
    states = CardStates()
    free = states.free(1, 80 * GIB, Cards())
    taken: Taken
    full, taken = states.take(free, CardAsk(1))
    assert states.take(full, CardAsk(1)) == (full, ())
    assert states.give_back(full, taken) == free
