"""How long a node waits for a head that was lost, in virtual time."""

from __future__ import annotations

import pytest

from phalanx.model.lifecycle import ALIVE
from phalanx.node.dispatch import MessageTable
from phalanx.node.head_link import RemoteHeadLink
from phalanx.node.membership import ClusterMembership, MembershipOptions
from phalanx.protocol.bundle_messages import BundleInventory
from phalanx.protocol.cluster_messages import Acked, Expelled, Join, Joined, ViewRow
from phalanx.scheduler.placement.placement_policy import PlacementPolicy

MINUTE, DAY = 60.0, 86_400.0


class Connection:
    """A connection to the head that keeps what is posted."""

    def __init__(self):
        self.peer, self.tag = b"", ""
        self.posted = []

    def post(self, message):
        self.posted.append(message)

    send = post


class Place:
    """A node's membership, and what its shell is asked for."""

    def __init__(self, **options):
        self.now = 1000.0
        self.works = self.holds = False
        self.dialled = []
        self.ends = []
        self.table = MessageTable()
        self.membership = ClusterMembership(
            self,
            lambda: self.now,
            options=MembershipOptions(head="head", hostname="n1", **options),
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

    def dial_head(self):
        self.dialled.append(Connection())
        return self.dialled[-1]

    def joined(self, cluster):
        pass

    def note(self, text):
        pass

    def end(self, reason, is_about_token):
        self.ends.append(reason)

    # ---- what happens

    def joins(self):
        if not self.dialled:
            self.membership.join("host", 1)
        self.table.handle(Joined(1, PlacementPolicy(), "ours"))
        return self

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
