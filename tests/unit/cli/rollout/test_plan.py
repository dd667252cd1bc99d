"""The steps of `phalanx up` and `phalanx down` for given states of the machines.

A machine is written as its daemons with their software, such as `head:1 node:1`. Then follow words
that begin with a sign: `+2` is software that is installed as well, `=T` the token, `~T` the token
that `phalanx up` wrote, `>2` the software to which the machine's link leads. Without `>` the link
leads to the daemons' software. A daemon `node:1!` runs with other options, `node:` was started by
hand, and `node@10.9.9.9:1` belongs to another cluster.
"""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.cli.rollout.cluster_file import Cluster, Machine
from phalanx.cli.rollout.plan import (
    Found,
    Running,
    Task,
    head_to_ask,
    mark,
    options_mark,
    plan_down,
    plan_up,
)

PROTOCOLS = {"1": 70, "2": 70, "9": 71}
"""The protocol version of each software."""


def cluster(standby: str = "", **settings: Any) -> Cluster:
    machines = {
        name: Machine(name, f"10.0.0.{number}", f"10.0.0.{number}")
        for number, name in enumerate("abcd", 1)
    }
    return Cluster(head="a", machines=machines, standby=standby, **settings)


PLAIN = cluster()
WITH_STANDBY = cluster("b", start={"store": "redis://r:1/0"})


def found(text: str, name: str, of: Cluster) -> Found:
    running, installed, token, own, link = [], set(), "", "", ""
    for word in text.split():
        if word[0] == "+":
            installed.add(word[1:])
        elif word[0] == "=":
            token = word[1:]
        elif word[0] == "~":
            own = word[1:]
        elif word[0] == ">":
            link = word[1:]
        else:
            kind, _, address = word.partition("@")
            kind, _, package = kind.partition(":")
            options = "" if not package else options_mark(of, name, kind)
            if package.endswith("!"):
                package, options = package[:-1], "others"
            where = frozenset({address} if address else of.addresses)
            running.append(Running(kind, name, where, package, options))
            installed |= {package} - {""}
    protocols = {one: PROTOCOLS[one] for one in installed}
    link = link or max((one.package for one in running), default="")
    return Found(link, frozenset(installed), protocols, token, own, tuple(running))


def seen(of: Cluster, texts: str) -> dict[str, Found]:
    """Return the machines that are described by `texts` (for a, b, c and d). A machine that is
    written as `-` cannot be reached.
    """
    pairs = zip("abcd", texts.split(","), strict=False)
    return {name: found(text, name, of) for name, text in pairs if text.strip() != "-"}


def steps(
    of: Cluster, texts: str, wanted: str = "1", names: str = "abcd", **more: Any
) -> list[str]:
    plan = plan_up(of, seen(of, texts), Task(wanted, frozenset(names), **more))
    assert plan.refusals == ()
    return shown(plan.stages)


def shown(stages: Any) -> list[str]:
    return [
        f"{stage[0].do.name.lower()} {''.join(step.machine for step in stage)}" for stage in stages
    ]


RUNS = "head:1 node:1 =T, node:1 =T ~T, node:1 =T ~T, node:1 =T ~T"
CASES = {
    "an empty machine": (
        ", , , ",
        ["install abcd", "start_head a", "send_token bcd", "start_node abcd"],
    ),
    "everything runs": (RUNS, []),
    "machines have the software": (
        "+1,+1,+1,+1",
        ["start_head a", "send_token bcd", "start_node abcd"],
    ),
    "a machine is new": (
        RUNS.replace("node:1 =T ~T", "", 1),
        ["install b", "send_token b", "start_node b"],
    ),
    "the head is gone": (RUNS.replace("head:1 ", ""), ["start_head a"]),
    "a node is gone": (RUNS.replace(", node:1", ", +1", 1), ["start_node b"]),
    "the token was rotated": (RUNS.replace("=T", "=U", 1), ["send_token bcd"]),
    "the head has other options": (RUNS.replace("head:1", "head:1!"), ["restart_head a"]),
    "a node has other options": (RUNS.replace(", node:1", ", node:1!", 1), []),
    "a machine cannot be reached": (RUNS.replace("node:1 =T ~T", "-", 1), []),
    "daemons were started by hand": (RUNS.replace(":1", ":"), ["install abcd"]),
    "the token was copied by hand": (
        RUNS.replace(", node:1 =T ~T", ", =T", 1),
        ["install b", "start_node b"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_up_does_what_is_left_to_do(name: str) -> None:
    texts, expected = CASES[name]
    assert steps(PLAIN, texts) == expected


def test_only_the_named_machines_are_looked_after() -> None:
    assert steps(PLAIN, "head:1 node:1 =T, , , ", names="c") == [
        "install c", "send_token c", "start_node c",
    ]  # fmt: skip


def test_a_file_without_a_package_installs_nothing() -> None:
    assert steps(PLAIN, "head: node: =T, node: =T, node: =T, =T", "") == ["start_node d"]


STANDBY_CASES = {
    "an empty machine": (
        "+1,+1,+1,+1",
        ["start_head a", "send_token bcd", "start_standby b", "start_node abcd"],
    ),
    "the standby is gone": (
        "head:1 node:1 =T, node:1 =T, node:1 =T, node:1 =T",
        ["start_standby b"],
    ),
    "a standby is added": (
        "head:1! node:1 =T, node:1 =T, node:1 =T, node:1 =T",
        ["restart_head a", "start_standby b"],
    ),
    "the standby serves, and the head is gone": (
        "node:1 =T, head:1 node:1 =T, node:1 =T, node:1 =T",
        ["start_standby a"],
    ),
    "the head's machine is lost, and the standby serves": (
        "-, head:1 node:1 =T, node:1 =T, =T",
        ["install d", "start_node d"],
    ),
    "the head's machine is lost, and no head serves": (
        "-, +1 =T, node:1 =T, node:1 =T",
        ["start_head b", "start_node b"],
    ),
}


@pytest.mark.parametrize("name", STANDBY_CASES)
def test_a_standby_is_looked_after(name: str) -> None:
    texts, expected = STANDBY_CASES[name]
    assert steps(WITH_STANDBY, texts) == expected


UPGRADES = {
    "first the software": (PLAIN, RUNS, ["install abcd", *"ABCD"]),
    "head first, then one node after the other": (
        PLAIN,
        RUNS.replace("=T", "=T +2"),
        ["restart_head a", "restart_node a", "restart_node b", "restart_node c", "restart_node d"],
    ),
    "an upgrade goes on where it stopped": (
        PLAIN,
        "head:2 node:2 =T, node:2 =T, node:1 +2 =T, node:1 +2 =T",
        ["restart_node c", "restart_node d"],
    ),
    "a node whose link alone was switched": (
        PLAIN,
        "head:2 node:2 =T, node:2 =T, node:1 >2 +2 =T, node:2 =T",
        ["restart_node c"],
    ),
    "a node whose upgrade was given up half-way": (
        PLAIN,
        "head:2 node:2 =T, node:2 =T, node:2 >1 =T, node:2 =T",
        ["restart_node c"],
    ),
    "a machine without daemons gets the new software": (
        PLAIN,
        "head:2 node:2 =T, +1 +2 =T, node:2 =T, node:2 =T",
        ["start_node b"],
    ),
    "the one that stands by comes first": (
        WITH_STANDBY,
        "head:1 =T +2, standby:1 =T +2, =T +2, =T +2",
        ["restart_head b", "restart_head a", "start_node abcd"],
    ),
    "also where the standby serves": (
        WITH_STANDBY,
        "standby:1 =T +2, head:1 =T +2, =T +2, =T +2",
        ["restart_head a", "restart_head b", "start_node abcd"],
    ),
}


@pytest.mark.parametrize("name", UPGRADES)
def test_an_upgrade_goes_machine_by_machine(name: str) -> None:
    of, texts, expected = UPGRADES[name]
    if expected[1:] == list("ABCD"):
        expected = ["install abcd", "restart_head a", *(f"restart_node {one}" for one in "abcd")]
    assert steps(of, texts, "2", upgrades=True) == expected


def test_another_version_of_the_protocol_replaces_all_machines_at_once() -> None:
    texts = RUNS.replace("=T", "=T +9")
    assert steps(PLAIN, texts, "9", upgrades=True) == [
        "stop bcd", "stop a", "start_head a", "start_node abcd",
    ]  # fmt: skip
    with_standby = "head:1 node:1 =T +9, standby:1 =T +9, node:1 =T +9, =T +9"
    assert steps(WITH_STANDBY, with_standby, "9", upgrades=True) == [
        "stop c", "stop b", "stop a", "start_head a", "start_standby b", "start_node abcd",
    ]  # fmt: skip


REFUSALS = {
    "the head's machine": (PLAIN, "-, , ,", "1", "abcd", False, "The head's machine cannot be"),
    "no head for the names": (PLAIN, ", , ,", "1", "cd", False, "No head runs: give a too"),
    "other software": (PLAIN, RUNS, "2", "abcd", False, "a, b, c, d: other software runs there"),
    "a link that a failed upgrade left behind": (
        PLAIN, RUNS.replace("node:1 =T ~T", "node:1 >2 =T ~T", 1), "1", "abcd", False,
        "b: other software runs there",
    ),
    "a part of another protocol": (
        PLAIN, RUNS.replace("=T", "=T +9"), "9", "abc", True, "The new release speaks another",
    ),
    "software of another hand": (
        PLAIN, RUNS.replace(", node:1", ", node:", 1), "2", "abcd", True, "b: its daemons were",
    ),
    "another cluster": (
        PLAIN, RUNS.replace(", node:1", ", node:1@10.9.9.9:1", 1), "1", "abcd", False,
        "b: a node of the cluster at 10.9.9.9:1 runs there under this account",
    ),
    "another cluster's token": (
        PLAIN, "head:1 =T, =X, ,", "1", "abcd", False, "b: there is a token that `phalanx up` did",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_nothing_is_begun_that_cannot_end_well(name: str) -> None:
    of, texts, wanted, names, upgrades, expected = REFUSALS[name]
    plan = plan_up(of, seen(of, texts), Task(wanted, frozenset(names), upgrades))
    assert plan.stages == ()
    assert plan.refusals[0].startswith(expected), plan.refusals


def test_other_options_of_a_node_are_noted() -> None:
    found_there = seen(PLAIN, RUNS.replace(", node:1", ", node:1!", 1))
    (note,) = plan_up(PLAIN, found_there, Task("1", frozenset("abcd"))).notes
    assert note.startswith("b: its node runs with other options than the file's.")


def test_down_ends_nodes_before_the_standby_and_the_head_last() -> None:
    there = seen(WITH_STANDBY, "head:1 node:1, standby:1 node:1, node:1, ")
    assert shown(plan_down(WITH_STANDBY, there, "abcd").stages) == ["stop c", "stop b", "stop a"]
    assert shown(plan_down(WITH_STANDBY, there, "c").stages) == ["stop c"]
    other = seen(PLAIN, "head:1, node:1@10.9.9.9:1, ,")
    assert plan_down(PLAIN, other, "abcd").refusals[0].startswith("b: a node of the cluster at")


def test_the_head_that_serves_is_asked() -> None:
    assert head_to_ask(WITH_STANDBY, seen(WITH_STANDBY, "standby:1, head:1, ,")) == "b"
    assert head_to_ask(WITH_STANDBY, seen(WITH_STANDBY, ", , ,")) == "a"


def test_a_mark_tells_contents_apart() -> None:
    assert mark("a", "b") == mark(b"a", b"b") != mark("ab") != mark("ab", "")
