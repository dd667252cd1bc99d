"""The nodes in a what-if question: people write names, and the snapshot has ids."""

from __future__ import annotations

import pytest
from tests.unit.dashboard.world import node
from tests.unit.scheduler.forecast.test_what_if import snapshot

from phalanx.head.jobs.what_if import Supposition, suppose, with_ids

NODES = [
    node(1, name="gpu1", hostname="gpu1"),
    node(2, name="gpu2", hostname="gpu2", labels={"kubernetes.io/hostname": "vm"}),
    node(3, hostname="vm3"),
    node(4, hostname="twin"),
    node(5, hostname="twin"),
    node(6, name="old", hostname="old", state="DEAD"),
]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("gpu1", NODES[0].node_id),
        ("vm3", NODES[2].node_id),
        (NODES[1].node_id, NODES[1].node_id),
        ("vm", "vm"),
    ],
)
def test_a_node_is_named_by_its_name_its_id_or_its_machine(written, found):
    supposed = Supposition(add_nodes=(f"2:{written}", "1:CPU=4"), remove_nodes=(written,))
    meant = with_ids(supposed, NODES)
    assert meant.add_nodes == (f"2:{found}", "1:CPU=4")
    assert meant.remove_nodes == (found,)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("twin", "'twin' is the name of 2 nodes; name one by its id"),
        ("gpu3", "there is no node 'gpu3'; did you mean 'gpu"),
        ("old", "there is no node 'old'; known: gpu1, gpu2, twin, vm3"),
    ],
)
def test_a_name_of_no_node_or_of_several_nodes_is_refused(written, said):
    with pytest.raises(ValueError, match="node") as refused:
        with_ids(Supposition(remove_nodes=(written,)), NODES)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("q=--5", "weight 'q=--5': expected QUEUE=N, such as research=5"),
        ("q=-", "weight 'q=-': expected QUEUE=N, such as research=5"),
        ("q=-5", "the weight of a queue must be at least 1, not -5"),
    ],
)
def test_a_weight_that_no_queue_can_have_is_refused(written, said):
    with pytest.raises(ValueError, match="weight") as refused:
        suppose(snapshot(), Supposition(weights=(written,)))
    assert str(refused.value) == said
