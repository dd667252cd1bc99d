"""The CPU time of accounts: which CPUs each account has, and what is written to its control
group.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.runtime.node.account_shares import AccountShares, shared_out, way_of_accounts

ANA, BO = 1001, 1002


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.floats(0, 4)), max_size=12),
    st.integers(1, 6),
)
def test_no_cpu_has_two_owners_and_who_keeps_as_many_keeps_the_same(changes, count):
    cpus = range(count)
    held: dict[int, float] = {}
    own: dict[int, list[int]] = {}
    for uid, amount in changes:
        held[uid] = amount
        if sum(held.values()) > count:  # a node never gives away more than it has
            held[uid] = 0.0
        found = shared_out(cpus, held, own)
        everything = [cpu for mine in found.values() for cpu in mine]
        assert len(everything) == len(set(everything))
        for one, mine in found.items():
            assert len(mine) == int(held[one] + 1e-6)
            if len(mine) >= len(own.get(one, [])):
                assert set(own.get(one, [])) <= set(mine)
        own = found


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    """Return the directory of a control group with the groups of two accounts."""
    for uid in (ANA, BO):
        group = tmp_path / "cgroup" / f"account-{uid}"
        group.mkdir(parents=True)
        (group / "cpu.weight").write_text("100\n")
        (group / "cpuset.cpus").write_text("\n")
    (tmp_path / "groups").write_text(str(tmp_path / "cgroup"))
    return tmp_path / "cgroup"


def shown(groups: Path, uid: int) -> tuple[str, str]:
    """Return the weight and the CPUs of an account's control group."""
    group = groups / f"account-{uid}"
    return (group / "cpu.weight").read_text(), (group / "cpuset.cpus").read_text()


def test_accounts_have_their_cpus_and_those_that_nobody_has(groups):
    shares = AccountShares(str(groups.parent / "socket"), [0, 1, 4, 5])
    shares.begins(ANA, b"a", 1.0)
    assert shown(groups, ANA) == ("100", "0,1,4,5"), "it may use what nobody holds"
    shares.begins(BO, b"b", 2.0)
    assert shown(groups, ANA) == ("100", "0,5")
    assert shown(groups, BO) == ("200", "1,4,5")
    shares.begins(ANA, b"c", 0.5)
    assert shown(groups, ANA) == ("150", "0,5"), "half a CPU is shared with others"
    shares.begins(ANA, b"d", 0.5)
    assert shown(groups, ANA) == ("200", "0,5")
    assert shown(groups, BO) == ("200", "1,4")
    shares.ended(BO, b"b")
    assert shown(groups, ANA) == ("200", "0,1,4,5")


def test_a_node_with_more_cpus_than_its_machine_sets_weights_alone(groups):
    shares = AccountShares(str(groups.parent / "socket"), ())
    shares.begins(ANA, b"a", 3.0)
    assert shown(groups, ANA) == ("300", "\n")


def test_the_nodes_next_process_goes_on_with_what_was_held(groups):
    first = AccountShares(str(groups.parent / "socket"), [0, 1])
    first.begins(ANA, b"a", 2.0)
    after = AccountShares(str(groups.parent / "socket"), [0, 1])
    after.take_over(ANA, {b"a"})
    after.begins(ANA, b"b", 1.0)
    assert shown(groups, ANA)[0] == "300"
    after.ended(ANA, b"a")
    assert shown(groups, ANA)[0] == "100"
    after.ended(ANA, b"b")
    after.forget(ANA)


def test_where_the_kernel_has_no_groups_nothing_happens(tmp_path):
    shares = AccountShares(str(tmp_path / "socket"), [0, 1])
    shares.begins(ANA, b"a", 1.0)
    shares.take_over(BO, {b"b"})
    shares.ended(ANA, b"a")
    assert way_of_accounts(str(tmp_path / "socket")) == "none"


def test_the_way_of_accounts_is_what_their_group_hands_on(groups):
    (groups / "cgroup.subtree_control").write_text("cpuset cpu pids\n")
    assert way_of_accounts(str(groups.parent / "socket")) == "delegated+pids+cpu"
