"""`scontrol update PartitionName=...`: the change of a queue that each operand requests."""

from __future__ import annotations

import pytest

from phalanx.adapters.slurm.commands.partition_states import Change, read_change


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("PartitionName=lab State=UP", Change("lab", True)),
        ("partitionname=lab state=drain", Change("lab", False)),
    ],
)
def test_a_change_is_read(words: str, change: Change) -> None:
    assert read_change(words.split()) == change


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("PartitionName=lab State=DOWN", "DRAIN refuses new jobs"),
        ("PartitionName=lab State=", "the states are UP and DRAIN"),
        ("PartitionName=lab MaxTime=10", "`phalanx queue update` changes the rest"),
        ("PartitionName= State=UP", "give PartitionName=NAME"),
    ],
)
def test_other_changes_are_refused(words: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_change(words.split())
