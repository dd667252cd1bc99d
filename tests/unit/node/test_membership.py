"""How long a node waits for a head that it has lost, in virtual time."""

from __future__ import annotations

import pytest

from phalanx.model.lifecycle import ALIVE
from phalanx.node.dispatch import MessageTable
from phalanx.node.head_addresses import JOINING_S, SILENCE_S
from phalanx.node.head_link import RemoteHeadLink
from phalanx.node.membership import ClusterMembership, MembershipOptions
from phalanx.node.standing import Standing
from phalanx.protocol.bundle_messages import BundleInventory
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.protocol.membership_messages import Acked, Expelled, Join, Joined, Probe, Probed
from phalanx.scheduler.placement.placement_policy import PlacementPolicy

MINUTE, DAY = 60.0, 86_400.0


class Connection:
    """A connection to the head that records what is posted."""

    def __init__(self):
        self.peer, self.tag = b"", ""
        self.posted = []

    def post(self, message):
        self.posted.append(message)

    send = post


class Place:
    """A node's membership, and the effects that it requests."""

    def __init__(self, **options):
        self.now = 1000.0
        self.works = self.holds = False
        self.dialled = []
        self.addresses = []
        self.lost = []
        self.ends = []
        self.table = MessageTable()
        self.standing = Standing(lambda: self.now)
        self.membership = ClusterMembership(
            self,
            lambda: self.now,
            options=MembershipOptions(hostname="n1", **{"heads": ("head",), **options}),
            link=RemoteHeadLink(),
            effects=self,
        )
        self.membership.handle_in(self.table)

    # ---- MemberNode, HeadEffects

    prefix = b"node01"

    def own_row(self):
        return ViewRow("6e" * 28, b"node01", "", 0, ALIVE, {}, {}, {})

    def holdings(self):
        return {}, BundleInventory([], {})

    def given_up(self):
        return [b"node07"]

    def on_head_joined(self, placement, settings):
        pass

    def on_head_lost(self):
        pass

    def has_work(self):
        return self.works

    def has_places(self):
        return self.holds

    def lose(self, connection):
        self.lost.append(connection)
        self.membership.connection_lost("")

    def dial_head(self, address):
        self.addresses.append(address)
        self.dialled.append(Connection())
        return self.dialled[-1]

    def joined(self, cluster, address, standbys):
        self.known = (address, standbys)

    def note(self, text):
        pass

    def end(self, reason, is_about_token):
        self.ends.append(reason)

    # ---- what happens

    def joins(self, standbys=()):
        if not self.dialled:
            self.membership.join("host", 1)
        self.hears(Joined(1, PlacementPolicy(), "ours", standbys=standbys))
        return self

    def hears(self, message):
        self.membership.heard()
        self.table.handle(message)

    def passes(self, seconds):
        until = self.now + seconds
        while self.now < until:
            self.now = min(self.now + 1.0, until)
            self.membership.tick(self.now)

    def loses_head(self):
        self.membership.connection_lost("")


@pytest.fixture
def node():
    return Place().joins()


def test_a_quiet_connection_is_no_lost_head(node):
    node.passes(10 * MINUTE)
    assert not node.ends


@pytest.mark.parametrize("quiet_s", [0.0, 90.0, 3600.0])
def test_patience_is_counted_from_the_loss_of_the_connection(node, quiet_s):
    node.table.handle(Acked(1))
    node.passes(quiet_s)
    node.loses_head()
    node.passes(MINUTE)
    assert not node.ends
    node.passes(1.0)
    assert node.ends == ["No head could be reached for 61 s."]


def test_a_head_that_comes_back_ends_the_wait(node):
    node.loses_head()
    node.passes(50.0)
    dialled = len(node.dialled)
    assert dialled > 1, "it is tried again"
    assert isinstance(node.dialled[-1].posted[1], Join)
    node.joins()
    node.passes(10 * MINUTE)
    node.loses_head()
    node.passes(50.0)
    assert not node.ends


def test_while_something_runs_the_node_goes_on(node):
    node.works = True
    node.loses_head()
    node.passes(2 * DAY)
    assert not node.ends


def test_a_node_waits_long_with_a_result_that_the_head_does_not_know(node):
    node.works = node.holds = True
    node.loses_head()
    node.passes(10 * MINUTE)
    node.works = False
    node.passes(10 * MINUTE)
    assert not node.ends
    node.passes(DAY)
    assert node.ends


@pytest.mark.parametrize("patience_s", [5.0, 600.0])
def test_patience_can_be_chosen(patience_s):
    node = Place(patience_s=patience_s).joins()
    node.loses_head()
    node.passes(patience_s)
    assert not node.ends
    node.passes(1.0)
    assert node.ends


def test_a_node_that_never_joined_ends_at_once():
    node = Place()
    node.membership.join("host", 1)
    node.membership.connection_lost("it refuses")
    assert node.ends == ["The head at head cannot be reached: it refuses."]


def test_a_node_that_comes_back_under_another_id_waits_for_the_head_as_one_that_lost_it():
    node = Place(comes_back=True)
    node.membership.join("host", 1)
    node.membership.connection_lost("no route to host")
    node.passes(1.0)
    assert len(node.dialled) > 1, "it is tried again"
    assert not node.ends
    node.membership.connection_lost("no route to host")
    node.passes(MINUTE)
    assert node.ends == ["No head could be reached for 61 s."]


def test_a_node_of_another_version_waits_and_ends_once_it_is_given_up():
    node = Place().joins()
    node.works = True
    node.membership.connection_lost("it speaks version 11")
    node.passes(MINUTE)
    assert not node.ends, "what runs here goes on"
    node.membership.connection_lost("it takes this node for dead", is_given_up=True)
    assert node.ends == ["The head at head refuses this node: it takes this node for dead."]
    assert node.membership.is_stale, "it comes back under another id"


FOREIGN = Expelled("it is the head of the cluster other, not of this one", True, is_foreign=True)


@pytest.mark.parametrize("use", ["works", "holds"])
def test_a_node_in_use_waits_for_its_own_head_when_another_is_in_its_place(node, use):
    setattr(node, use, True)
    node.loses_head()
    node.passes(1.0)
    assert node.dialled[-1].posted[1].cluster == "ours"
    node.table.handle(FOREIGN)
    node.passes(10 * MINUTE)
    assert not node.ends
    dialled = len(node.dialled)
    node.loses_head()
    node.passes(1.0)
    assert len(node.dialled) > dialled, "when that one ends, its own may be there again"
    node.joins()
    setattr(node, use, False)
    node.passes(10 * MINUTE)
    assert not node.ends


def test_a_node_that_holds_nothing_comes_to_another_cluster_as_a_new_node(node):
    node.loses_head()
    node.passes(1.0)
    node.table.handle(FOREIGN)
    node.passes(1.0)
    assert node.ends == ["The head at head refuses this node: " + FOREIGN.reason]
    assert node.membership.is_stale


# ---- heads with a standby ------------------------------------------------------------------------


def probes(connection):
    return sum(isinstance(message, Probe) for message in connection.posted)


def test_without_a_standby_a_silent_head_is_neither_asked_nor_given_up(node):
    node.passes(10 * MINUTE)
    assert probes(node.dialled[-1]) == 0
    assert not node.lost


def test_a_lost_head_is_looked_for_at_each_address_in_turn():
    node = Place(heads=("a", "b", "c")).joins()
    node.loses_head()
    for _ in range(4):
        node.passes(1.0)
        node.loses_head()
    assert node.addresses == ["a", "b", "c", "a", "b"]
    node.passes(1.0)
    node.joins()
    assert node.known == ("c", ("a", "b"))


def test_a_node_learns_of_standbys_from_its_head():
    node = Place(heads=("a",)).joins(standbys=("b",))
    assert node.known == ("a", ("b",))
    node.loses_head()
    node.passes(1.0)
    assert node.addresses == ["a", "b"]


def test_a_node_that_is_refused_knows_all_heads_for_the_node_that_comes_back_in_its_place():
    node = Place(heads=("a",)).joins(standbys=("b",))
    node.membership.connection_lost("the head paused")
    node.passes(1)
    node.hears(Expelled("not known here", is_stale=True))
    assert node.membership.is_stale
    assert node.membership.heads == ("a", "b")


def test_a_node_joins_whichever_of_the_heads_serves():
    node = Place(heads=("a", "b"))
    node.membership.join("host", 1)
    node.membership.connection_lost("nothing listens")
    assert not node.ends
    node.passes(1.0)
    assert node.addresses == ["a", "b"]
    node.joins()
    assert node.known == ("b", ("a",))


def test_a_node_that_finds_no_head_at_any_address_ends():
    node = Place(heads=("a", "b"))
    node.membership.join("host", 1)
    node.membership.connection_lost("nothing listens")
    node.passes(1.0)
    node.membership.connection_lost("nothing listens")
    assert node.ends == ["The head at b cannot be reached: nothing listens."]


def test_a_head_that_answers_is_kept():
    node = Place(heads=("a", "b")).joins()
    for _ in range(60):
        node.passes(1.0)
        if probes(node.dialled[-1]):
            node.hears(Probed())
    assert probes(node.dialled[-1]) > 10
    assert not node.lost


def test_a_head_that_stands_still_is_given_up_for_the_standby():
    node = Place(heads=("a", "b")).joins()
    node.passes(SILENCE_S)
    assert not node.lost
    node.passes(2.0)
    assert len(node.lost) == 1
    assert node.addresses[-1] == "b"


def test_a_head_that_does_not_let_the_node_join_is_given_up_sooner():
    node = Place(heads=("a", "b")).joins()
    node.loses_head()
    node.passes(1.0)
    node.passes(JOINING_S + 2.0)
    assert node.addresses[:3] == ["a", "b", "a"]
