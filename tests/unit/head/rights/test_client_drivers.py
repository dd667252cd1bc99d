"""Clients on other machines, as the head handles them: which clients are admitted, and to which
driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.present import present
from tests.unit.head.rights.test_tokens import HASH, ID, OTHER, Place
from tests.world.clock import ManualClock
from tests.world.head import make_head

from phalanx.errors import AuthenticationError, JobCommandError, JobNotFoundError, NotAllowedError
from phalanx.head.nodes.record import NodeRecord
from phalanx.head.rights.control import RightsSetup
from phalanx.model.ids import GangId, JobId, client_socket_of
from phalanx.model.jobs.states import RUNNING
from phalanx.model.principals import JOB, UNIX, Principal
from phalanx.protocol.bundle_messages import Grant
from phalanx.protocol.cluster_messages import JobKnown
from phalanx.protocol.gateway_messages import Admit
from phalanx.protocol.requests.client_drivers import EnterDriver
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.queues import QueueFields, UpdateQueue
from phalanx.protocol.requests.tokens import CreateToken, RevokeToken

from .test_rights_of_requests import Person

BO = "ffeeddccbbaa0011"
PREFIX = b"node-a"


class Cluster(Place):
    """A shared head with a node, and two people with tokens."""

    def __init__(self, setup: RightsSetup | None = None) -> None:
        super().__init__()
        self.admitted: list[Admit] = []
        setup = setup or RightsSetup(is_shared=True, owner="boss", admit=self.admitted.append)
        self.head = make_head(lambda prefix, message: None, ManualClock(1_000.0), rights=setup)
        self.boss = Person(self.head, Principal(UNIX, "boss", "boss", is_owner=True))
        self.boss.ask(UpdateQueue("default", QueueFields(submit="*")))
        self.boss.ask(CreateToken("ana", ID, HASH))
        self.boss.ask(CreateToken("bo", BO, OTHER, "operator"))
        node = NodeRecord(node_id="aa", prefix=PREFIX, host="10.0.0.7", port=4711)
        self.head.nodes.join(0.0, node)
        self.ana, self.bo = self.holder(), self.holder(BO)

    def begin_driver(self, job: str) -> bytes:
        """Let a driver that runs in a job join its node; return its process id."""
        number = self.head.drivers.new()
        driver = PREFIX + b"random" + number
        known: Any = JobKnown(number, driver, [], "/", "ns", b"", False)
        known.principal = Principal(JOB, job)
        self.head.drivers.known(known)
        return driver


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_the_client_of_a_job_is_let_in_to_its_driver(cluster: Cluster) -> None:
    cluster.ana.submit("mine")
    with pytest.raises(JobCommandError, match="has no driver yet"):
        cluster.ana.ask(EnterDriver("default/mine"))
    cluster.begin_driver("default/other")
    driver = cluster.begin_driver("default/mine")
    target = cluster.ana.ask(EnterDriver("default/mine"))
    assert target == client_socket_of(driver) and cluster.admitted == [
        Admit(ID, target, "10.0.0.7", 4711)
    ]
    again = cluster.begin_driver("default/mine")
    assert cluster.ana.ask(EnterDriver("default/mine")) == client_socket_of(again), "it restarted"
    cluster.head.drivers.driver_gone(again)
    cluster.head.drivers.driver_gone(driver)
    with pytest.raises(JobCommandError, match="has no driver yet"):
        cluster.ana.ask(EnterDriver("default/mine"))


def test_nobody_else_is_let_in(cluster: Cluster) -> None:
    cluster.boss.submit("of-boss")
    cluster.ana.submit("mine")
    cluster.begin_driver("default/of-boss")
    cluster.begin_driver("default/mine")
    with pytest.raises(NotAllowedError, match="token:ana may not change"):
        cluster.ana.ask(EnterDriver("default/of-boss"))
    with pytest.raises(JobNotFoundError):
        cluster.ana.ask(EnterDriver("default/nothing"))
    with pytest.raises(NotAllowedError, match="only the holder of a token"):
        cluster.boss.ask(EnterDriver("default/mine"))
    cluster.boss.ask(RevokeToken("ana"))
    with pytest.raises(AuthenticationError):
        cluster.ana.ask(EnterDriver("default/mine"))
    assert cluster.admitted == []


def test_an_operator_changes_jobs_and_is_not_their_client(cluster: Cluster) -> None:
    """An operator has the right to cancel the work of others, but this does not include acting in
    their name.
    """
    cluster.ana.submit("mine")
    cluster.begin_driver("default/mine")
    with pytest.raises(NotAllowedError, match="belongs to ana"):
        cluster.bo.ask(EnterDriver("default/mine"))
    assert cluster.admitted == []


class Signed:
    """Grants and secrets as of a cluster whose jobs run as their submitters."""

    def grant(
        self, user: str, job: JobId, attempt: int, node: str, devices: Sequence[int]
    ) -> Grant:
        return Grant(user, 1001)

    def secret(self, user: str, job: JobId, gang: GangId) -> str:
        return f"secret of {user} and {job}"


def test_in_the_mode_system_a_client_is_let_in_to_the_cluster_of_its_job() -> None:
    admitted: list[Admit] = []
    setup = RightsSetup(is_shared=True, owner="boss", admit=admitted.append, grants=Signed())
    cluster = Cluster(setup)
    assert cluster.boss.ask(GetStatus(is_brief=True)).mode == "system"
    cluster.ana.submit("mine")
    with pytest.raises(JobCommandError, match="has no driver yet"):
        cluster.ana.ask(EnterDriver("default/mine"))
    cluster.begin_driver("default/mine")
    with pytest.raises(JobCommandError, match="has no driver yet"):
        cluster.ana.ask(EnterDriver("default/mine"))  # a driver of a node is none here
    jobs = cluster.head.gang_scheduler.jobs
    record, gang = present(jobs.table.get("default/mine")), present(jobs.gang_of("default/mine"))
    record.state, gang.ports, gang.members[0].node = RUNNING, [2345], "aa"
    target = cluster.ana.ask(EnterDriver("default/mine"))
    secret = "secret of ana and default/mine"
    assert admitted == [Admit(ID, target, "10.0.0.7", 2345, secret)]
    with pytest.raises(NotAllowedError):
        cluster.bo.ask(EnterDriver("default/mine"))


def test_a_driver_and_the_socket_for_its_client_have_different_names() -> None:
    driver = b"node-a" + bytes(range(6)) + b"job1"
    socket = client_socket_of(driver)
    assert socket != driver and len(socket) == len(driver)
    assert (socket[:6], socket[12:]) == (driver[:6], driver[12:])
    assert client_socket_of(socket) == driver
