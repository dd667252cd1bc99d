"""If a program cannot run on a Ray cluster, it is refused before it starts, with the reason."""

from __future__ import annotations

import pytest

from phalanx.adapters.ray.engine import preflight
from phalanx.adapters.ray.engine.preflight import check_reachable, check_version, explained_errors
from phalanx.errors import AuthenticationError


def test_a_cluster_that_is_not_there_is_named():
    with pytest.raises(ConnectionError, match=r"Nothing listens at 127.0.0.1:1 \("):
        check_reachable("127.0.0.1:1")


@pytest.mark.parametrize("address", ["x", "nowhere", "host:port", ":80"])
def test_what_is_no_address_is_said(address):
    with pytest.raises(ValueError, match="is not an address of a Ray cluster"):
        check_reachable(address)


@pytest.mark.parametrize("version", ["2.48.0", "1.13", "2.9.3"])
def test_an_old_ray_is_refused(version):
    with pytest.raises(ImportError, match=r"gangs need 2\.49 or newer"):
        check_version(version)


@pytest.mark.parametrize("version", ["2.49.0", "2.60.0", "3.0.0.dev0"])
def test_newer_ones_are_taken(version):
    check_version(version)


def connecting(error, address="10.0.0.1:6379"):
    with explained_errors(address, lambda text: None):
        raise error


def test_other_versions_on_the_cluster_are_told_apart():
    theirs = RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.49.0\n")
    with pytest.raises(
        ConnectionError, match=r"Ray: 2\.49\.0 Ray needs the same versions of Ray and Python"
    ):
        connecting(theirs)


def test_a_cluster_that_does_not_answer_may_want_a_token():
    with pytest.raises(AuthenticationError, match="needs the cluster's token: RAY_AUTH_MODE"):
        connecting(ConnectionError("Failed to connect to GCS"))


def test_no_cluster_here_is_said():
    with pytest.raises(ConnectionError, match="No Ray cluster was found on this machine"):
        connecting(ConnectionError("Could not find any running Ray instance."), "auto")


def test_other_errors_are_passed_on():
    with pytest.raises(RuntimeError, match="something else"):
        connecting(RuntimeError("something else"))


def test_who_waits_is_told_what_for(monkeypatch):
    monkeypatch.setattr(preflight, "SILENT_S", 0.0)
    heard: list[str] = []
    with explained_errors("10.0.0.1:6379", heard.append):
        while not heard:
            pass
    assert "does not answer yet; a program that joins needs the cluster's token" in heard[0]
