"""The arguments of mpirun about a job's members, and how mpirun calls the stand-in for ssh."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.adapters.mpi import Slot, command, plan
from phalanx.adapters.mpi_agent import member_of, read_call


def slots(text: str) -> list[Slot]:
    """Return the slots of `a@10.0.0.1 b@10.0.0.2`, with the members m0, m1, ... in order."""
    parts = [part.split("@") for part in text.split()]
    return [Slot(node, address, f"m{rank}") for rank, (node, address) in enumerate(parts)]


@pytest.mark.parametrize(
    ("found", "hosts", "members"),
    [
        ("a@1.1 a@1.1", {"1.1": 2}, {"1.1": "m0"}),
        ("a@1.1 b@1.2 a@1.1", {"1.1": 2, "1.2": 1}, {"1.1": "m0", "1.2": "m1"}),
        ("a@1.1 b@1.1 b@1.1", {"a": 1, "b": 2}, {"a": "m0", "b": "m1"}),
        ("a@1.1 b@1.1 c@1.2", {"a": 1, "b": 1, "1.2": 1}, {"a": "m0", "b": "m1", "1.2": "m2"}),
    ],
)
def test_hosts_are_addresses_unless_nodes_share_one(found, hosts, members):
    chosen = plan(slots(found))
    assert (chosen.slots, chosen.members) == (hosts, members)


def test_each_mpi_has_its_own_words_and_form_of_hosts():
    there = Path("/h")
    words, form = command("mpirun (Open MPI) 4.1.4", "mpirun", there, 4)
    assert words == ["mpirun", "--hostfile", "/h", "-np", "4"]
    assert form.format(host="a", slots=2) == "a slots=2\n"
    words, form = command("HYDRA build details:\n Version: 4.0.2", "mpirun.mpich", there, 4)
    assert words == ["mpirun.mpich", "-genvnone", "-f", "/h", "-n", "4"]
    assert form.format(host="a", slots=2) == "a:2\n"
    with pytest.raises(ValueError, match=r"neither Open MPI nor MPICH.*LAM"):
        command("LAM 7.1", "mpirun", there, 4)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["h", "orted -mca x"], ("h", "orted -mca x")),
        (["-x", "-l", "me", "h", "proxy", "--port", "1"], ("h", "proxy --port 1")),
        (["-q", "h", "a  b"], ("h", "a  b")),
    ],
)
def test_the_agent_is_called_like_ssh(words, found):
    assert read_call(words) == found


def test_what_the_agent_cannot_do_it_says():
    for words in ([], ["-x"], ["h"], ["-l", "h", "c"]):
        with pytest.raises(ValueError, match="HOST COMMAND"):
            read_call(words)
    assert member_of("b", "a m0\nb m1\n") == "m1"
    with pytest.raises(ValueError, match="c is not a host of this job, whose hosts are: a, b"):
        member_of("c", "a m0\nb m1\n")
