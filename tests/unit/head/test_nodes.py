"""The directory of nodes: which nodes may join, when a node is dead, and what others are told."""

from __future__ import annotations

import pytest
from tests.present import present

from phalanx.errors import StaleNodeError
from phalanx.head.nodes.directory import KEEP_DEAD, NodeDirectory
from phalanx.head.nodes.liveness import HealthLimits
from phalanx.head.nodes.record import NodeRecord
from phalanx.model.holds import DRAIN, RESTART, Hold
from phalanx.model.lifecycle import ALIVE, DEAD, DRAINING
from phalanx.model.node_deaths import KILLED, LOST, ORDERLY
from phalanx.protocol.report_messages import NodeReport
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.cluster_nodes import ClusterNodes
from phalanx.scheduler.placement.request_class import Request

LIMITS = HealthLimits(period_s=1.0, misses=3, joining_s=2.0, restored_s=10.0)
CPU = Request(resources=ResourceSet.from_mapping({"CPU": 1}))


class Effects:
    def __init__(self):
        self.changed, self.dead, self.held = [], [], []

    def node_changed(self, record):
        self.changed.append((record.node_id, record.state, record.epoch))

    def node_held(self, record, kind, hold):
        self.held.append((record.node_id, kind, hold is not None))

    def node_dead(self, record, reason):
        self.dead.append((record.node_id, reason))


@pytest.fixture
def effects():
    return Effects()


@pytest.fixture
def directory(effects):
    return NodeDirectory(effects, LIMITS)


def node(name, *, prefix=None, epoch=0, cpus=4.0, **fields):
    return NodeRecord(
        node_id=name,
        prefix=(prefix or name).encode().ljust(6, b"-"),
        host="10.0.0.1",
        port=7,
        totals={"CPU": cpus},
        epoch=epoch,
        **fields,
    )


def report(free=4.0, **fields):
    return NodeReport(available={"CPU": free}, **fields)


def available(directory):
    view = directory.cluster.view
    flags = view.of(CPU).available
    return [state.id for row, state in enumerate(view.nodes.states) if flags[row]]


def test_a_node_joins_reports_and_is_counted_on(directory, effects):
    directory.join(0.0, node("a"))
    assert available(directory) == [], "nothing is free before it has said so"
    assert directory.report(0.1, "a", report()) is True
    assert available(directory) == ["a"]
    assert directory.report(0.2, "a", report()) is False
    assert effects.changed == [("a", ALIVE, 1)]


def test_silence_is_death(directory, effects):
    directory.join(0.0, node("a"))
    directory.join(0.0, node("b"))
    directory.report(4.0, "b", report())
    directory.tick(4.9)
    assert effects.dead == [], "a node that starts may be silent for longer"
    directory.tick(5.0)
    assert effects.dead == [("a", "it did not report for 3 s")]
    directory.report(6.0, "b", report())
    directory.tick(8.9)
    directory.tick(9.0)
    assert [name for name, _ in effects.dead] == ["a", "b"]
    assert available(directory) == []
    assert directory.get("a").state == DEAD
    assert not directory.is_alive("a")


def test_a_node_whose_connection_ended_is_awaited_and_then_dead(directory, effects):
    directory.join(0.0, node("a"))
    assert directory.reason("a") == ""
    directory.disconnected("a", 1.0)
    assert directory.reason("a") == "its connection ended; waiting for it to come back"
    directory.join(1.5, node("a", epoch=1))
    assert directory.reason("a") == ""
    directory.disconnected("a", 2.0)
    directory.tick(10.0)
    assert effects.dead == [("a", "its connection ended, and it did not come back in time")]


@pytest.mark.parametrize(
    ("node_id", "totals", "said"),
    [
        ("b", {"CPU": 1}, "does not exist"),
        ("a", {"CPU": -1}, "at least 0"),
        ("a", {"CPU": float("nan")}, "at least 0"),
        ("a", {"CPU": float("inf")}, "at least 0"),
        ("a", {"CPU": 1e15}, "at most"),
        ("a", {"CPU": 1, "GPU": 1.5}, "whole number"),
        ("a", {"TPU": 0.5}, "whole number"),
        ("a", {"GPU": 1e9}, "at most 65536 devices"),
        ("a", {"TPU": 1e9}, "at most 65536 devices"),
        ("a", {"object_store_memory": 1}, "cannot be changed"),
    ],
)
def test_totals_that_no_node_can_have_are_refused(directory, node_id, totals, said):
    directory.join(0.0, node("a"))
    directory.report(0.1, "a", report(devices={"GPU": [10_000]}))
    directory.check_totals("a", {"CPU": 0.5, "GPU": 3, "new": 1})
    with pytest.raises(ValueError, match=said):
        directory.check_totals(node_id, totals)


def test_the_dead_must_come_back_as_another(directory):
    directory.join(0.0, node("a"))
    directory.tick(9.0)
    with pytest.raises(StaleNodeError, match=r"declared dead: it did not report .* a new node"):
        directory.join(9.1, node("a", epoch=1))
    with pytest.raises(StaleNodeError, match="has the prefix 612d2d2d2d2d of node a"):
        directory.join(9.1, node("b", prefix="a"))
    with pytest.raises(StaleNodeError, match="Node a is dead: it did not report"):
        directory.report(9.2, "a", report())
    with pytest.raises(StaleNodeError, match="Node c is not known here"):
        directory.report(9.2, "c", report())
    assert directory.join(9.3, node("a2")).epoch == 1


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (node("b", epoch=2), "joined before, but this head knows nothing of it"),
        (node("b", prefix="a"), "has the prefix 612d2d2d2d2d of node a"),
        (node("a", prefix="x", epoch=1), "joined with the prefix 612d2d2d2d2d and comes again"),
    ],
)
def test_who_may_not_join(directory, record, words):
    directory.join(0.0, node("a"))
    with pytest.raises(StaleNodeError, match=words):
        directory.join(1.0, record)
    assert [r.node_id for r in directory.all()] == ["a"]


def test_a_prefix_has_six_bytes(directory):
    record = node("a")
    record.prefix = b"12345"
    with pytest.raises(ValueError, match="6 bytes, not 5"):
        directory.join(0.0, record)


def test_a_connection_that_broke_is_made_again(directory, effects):
    directory.join(0.0, node("a"))
    directory.report(0.5, "a", report(3.0))
    directory.hold("a", DRAIN, Hold(reason="maintenance"))
    again = directory.join(2.0, node("a", epoch=1))
    assert (again.epoch, again.state, again.reason) == (2, DRAINING, "maintenance")
    assert effects.changed[-1] == ("a", DRAINING, 2)
    directory.tick(6.9)
    assert effects.dead == []
    assert directory.of_prefix(b"a-----").node_id == "a"
    assert directory.of_prefix(b"zzzzzz") is None


def test_a_draining_node_gets_nothing_new(directory, effects):
    directory.join(0.0, node("a"))
    directory.report(0.1, "a", report())
    assert directory.hold("a", DRAIN, Hold(reason="spot price")) is True
    assert directory.hold("a", DRAIN, Hold(reason="again")) is False
    assert available(directory) == []
    assert directory.get("a").reason == "again"
    assert directory.release("a", DRAIN) is True
    assert directory.release("a", DRAIN) is False
    assert (directory.get("a").reason, len(available(directory))) == ("", 1)
    directory.hold("a", DRAIN, Hold(reason="spot price"))
    directory.leave("a", "it drained")
    directory.leave("a", "twice")
    assert effects.dead == [("a", "it drained")]
    with pytest.raises(ValueError, match="node a does not exist or is not alive"):
        directory.hold("a", DRAIN, Hold(reason="late"))
    with pytest.raises(ValueError, match="node a does not exist or is not alive"):
        directory.release("a", DRAIN)


def test_totals_set_at_run_time(directory):
    directory.join(0.0, node("a", cpus=0.0))
    directory.report(0.1, "a", report(0.0))
    shape = directory.cluster.shape
    directory.report(0.2, "a", report(2.0, total={"CPU": 2.0}))
    assert directory.cluster.shape == shape + 1
    assert available(directory) == ["a"]
    directory.report(0.3, "a", report(1.0))
    assert directory.get("a").totals == {"CPU": 2.0}
    assert directory.cluster.shape == shape + 1


def test_what_was_counted_in_and_never_taken_comes_back(directory):
    directory.join(0.0, node("a", cpus=1.0))
    directory.report(0.1, "a", report(1.0))
    version, _ = directory.changes_since(0)
    directory.cluster.count_in("a", CPU.resources, True)
    assert available(directory) == []
    directory.report(1.1, "a", report(1.0))
    assert available(directory) == ["a"]
    assert directory.changes_since(version) == (version, []), "others need not be told"


def test_others_are_told_what_changed(directory):
    for name in "abc":
        directory.join(0.0, node(name))
        directory.report(0.1, name, report())
    version, rows = directory.changes_since(0)
    assert [row.node_id for row in rows] == ["a", "b", "c"]
    assert directory.changes_since(version) == (version, [])
    directory.report(1.0, "b", report())
    assert directory.changes_since(version) == (version, [])
    directory.report(2.0, "a", report(1.0, queued=[({"CPU": 1.0}, 3), ({"CPU": 2.0}, 1)]))
    directory.leave("c", "it left")
    later, rows = directory.changes_since(version)
    assert [(r.node_id, r.state, r.queue_length) for r in rows] == [("a", ALIVE, 4), ("c", DEAD, 0)]
    assert directory.changes_since(later + 50)[1] != [], "counted by another head: all is told"


def test_a_copy_is_what_the_head_has(directory):
    copy, seen = ClusterNodes(), 0
    for step in range(30):
        name = "abcd"[step % 4]
        if directory.get(name) is None:
            directory.join(step, node(name))
        elif directory.is_alive(name):
            directory.report(step, name, report(float(step % 3)))
        if step == 20:
            directory.leave("b", "it left")
        seen, rows = directory.changes_since(seen)
        for row in rows:
            copy.put(row)
        head = directory.cluster.view.nodes
        assert copy.view.nodes.states == head.states
    assert "b" not in copy.view.nodes.row_of


def test_a_restarted_head_knows_its_nodes_and_gives_them_time(effects):
    stored = [node("a", epoch=3), node("b", epoch=1), node("c", epoch=1, state=DEAD, reason="old")]
    directory = NodeDirectory(effects, LIMITS)
    directory.restore(stored, 100.0)
    assert [directory.is_alive(name) for name in "abc"] == [True, True, False]
    assert available(directory) == []
    assert len(directory.cluster.view.nodes) == 2
    assert directory.join(101.0, node("a", epoch=3)).epoch == 4
    directory.report(101.0, "a", report())
    with pytest.raises(StaleNodeError, match="declared dead: old"):
        directory.join(101.0, node("c", epoch=1))
    directory.report(112.0, "a", report())
    directory.tick(112.9)
    assert effects.dead == []
    directory.tick(113.0)
    assert [name for name, _ in effects.dead] == ["b"]


def test_a_node_that_lives_and_may_not_join_is_not_dead_while_it_says_so(effects):
    directory = NodeDirectory(effects, LIMITS)
    directory.restore([node("a"), node("b")], now=100.0)
    assert directory.refused("a", "it speaks version 9", 101.0), "that is news"
    last = 100.0 + LIMITS.silence_s + LIMITS.restored_s
    for now in range(102, int(last) + 5):
        assert not directory.refused("a", "it speaks version 9", float(now))
        directory.tick(float(now))
    assert [name for name, _ in effects.dead] == ["b"]
    assert directory.reason("a") == "it speaks version 9; waiting for it to come back"
    assert not directory.is_here("a")
    assert directory.refused("a", "it speaks version 8", last + 5), "it was upgraded, or the other"
    directory.tick(last + 5 + LIMITS.silence_s)
    assert effects.dead[1] == ("a", "it speaks version 8, and it did not come back in time")


def test_a_death_that_leads_to_another(directory, effects):
    for name in "ab":
        directory.join(0.0, node(name))
    effects.node_dead = lambda record, reason: (
        effects.dead.append((record.node_id, reason)),
        directory.leave("b", "with the other"),
    )
    directory.tick(99.0)
    assert [name for name, _ in effects.dead] == ["a", "b"]


def test_the_memory_of_the_dead_is_bounded(directory):
    for at in range(KEEP_DEAD + 5):
        name = f"n{at:05}"
        directory.join(0.0, node(name, prefix=f"{at:06}"))
        directory.leave(name, "it left")
    assert len(directory.all()) == KEEP_DEAD
    assert len(directory.changes_since(0)[1]) == KEEP_DEAD
    with pytest.raises(StaleNodeError, match="knows nothing of it"):
        directory.join(1.0, node("n00000", prefix="000000", epoch=1))


@pytest.mark.parametrize("fields", [{"period_s": 0.0}, {"misses": 0}, {"period_s": float("inf")}])
def test_limits_that_are_none(fields):
    with pytest.raises(ValueError, match="is a number above 0"):
        HealthLimits(**fields)


def test_limits_that_nodes_would_miss_between_two_reports():
    with pytest.raises(ValueError, match=r"at least 1.5 s, not 0.9 s: .* report every 1 s"):
        HealthLimits(period_s=0.3, misses=3)
    assert HealthLimits(period_s=0.3, misses=5).silence_s == 1.5


def test_a_tick_that_is_late_itself_takes_nobody_for_dead(directory, effects):
    """The messages that nodes sent while the head was stopped are read only after this tick."""
    directory.join(0.0, node("a"), report())
    directory.join(0.0, node("b"), report())
    for at in (4.7, 4.8, 4.9):
        directory.tick(at)
    directory.tick(9.0)
    assert effects.dead == []
    directory.report(9.0, "a", report())
    directory.tick(9.05)
    assert [node_id for node_id, _ in effects.dead] == ["b"]


def test_ticks_that_are_always_late_judge_every_other_time(directory, effects):
    directory.join(0.0, node("a"), report())
    for at in range(5):
        directory.tick(float(at))
    assert effects.dead == []
    directory.tick(5.0)
    directory.tick(6.0)
    assert [node_id for node_id, _ in effects.dead] == ["a"]


def test_how_a_node_ended_is_kept(directory):
    for name in ("silent", "left", "killed", "drain"):
        directory.join(0.0, node(name), report())
    directory.hold("drain", DRAIN, Hold(reason="maintenance"))
    directory.leave("left", "Expected termination", ORDERLY)
    directory.leave("killed", "its fork server was killed", KILLED)
    directory.leave("drain", "its fork server was killed", KILLED)
    directory.tick(60.0)
    deaths = {record.node_id: record.death for record in directory.all()}
    assert deaths == {"silent": LOST, "left": ORDERLY, "killed": KILLED, "drain": ORDERLY}


def keeper(name, **fields):
    return node(name, keeps_commands=True, **fields)


def test_a_node_with_commands_that_go_on_is_waited_for_when_its_process_has_ended(effects):
    limits = HealthLimits(period_s=1.0, misses=3, joining_s=2.0, reconnect_s=2.0, restart_s=30.0)
    directory = NodeDirectory(effects, limits)
    directory.has_commands = lambda node_id: node_id != "idle"
    for one in (keeper("a"), keeper("idle"), node("other"), keeper("silent")):
        directory.join(0.0, one, report())
    for name in ("a", "idle", "other"):
        directory.disconnected(name, 1.0)
    directory.tick(3.0)
    assert [name for name, _ in effects.dead] == ["idle", "other"]
    assert directory.is_expected("a")
    assert not directory.takes_work("a")
    directory.tick(32.9)
    directory.tick(32.95)
    assert [name for name, _ in effects.dead][2:] == ["silent"]
    directory.tick(33.1)
    assert effects.dead[-1][0] == "a"
    assert present(directory.get("a")).death == LOST


def test_a_node_that_was_only_cut_off_takes_work_again(effects):
    directory = NodeDirectory(effects, LIMITS)
    directory.has_commands = lambda node_id: True
    directory.join(0.0, keeper("a"), report())
    directory.disconnected("a", 1.0)
    directory.tick(3.0)
    assert RESTART in present(directory.get("a")).holds
    directory.join(4.0, keeper("a", epoch=1), report())
    assert present(directory.get("a")).holds == {}
    assert directory.takes_work("a")


def test_the_files_of_a_dead_node_are_at_its_next_process_that_joins_late(directory, effects):
    directory.join(0.0, keeper("a"), report())
    directory.leave("a", "its connection ended")
    directory.join(9.0, keeper("b"), report())
    directory.succeeded("a", "b")
    assert directory.latest("a") == "b"
    assert [name for name, _ in effects.dead] == ["a"]


def test_the_files_of_a_node_are_at_its_latest_process(directory, effects):
    for name in ("a", "b", "c"):
        directory.join(0.0, keeper(name), report())
    directory.succeeded("a", "b")
    directory.succeeded("b", "c")
    assert [directory.latest(name) for name in ("a", "b", "c", "x")] == ["c", "c", "c", "x"]
    assert directory.get("a").death == ORDERLY
