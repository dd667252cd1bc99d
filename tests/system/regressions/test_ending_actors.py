"""A name belongs to a living actor or to none, never to one whose process is about to end."""

from __future__ import annotations

import os
import time

import pytest
from tests.polling import eventually

import phalanx
from phalanx.actor import exit_actor


@pytest.fixture(autouse=True)
def cluster():
    phalanx.init(num_cpus=4, ignore_reinit_error=True)
    yield
    phalanx.shutdown()


@phalanx.remote(num_cpus=0)
class Lingering:
    """An actor whose process does not end, after its last call, before the file `end` exists."""

    def __init__(self, directory):
        self.directory = directory

    def pid(self):
        return os.getpid()

    def leave(self):
        exit_actor()

    def __ray_shutdown__(self):
        (self.directory / "ends").touch()
        while not (self.directory / "end").exists():
            time.sleep(0.01)


@phalanx.remote(num_cpus=0)
class Plain:
    def ping(self):
        return "pong"


def test_a_name_asked_for_after_the_last_handle_went_leads_to_an_actor_that_lives():
    """In 15 of 40 rounds the old actor was returned, so 15 rounds nearly always reveal the
    defect.
    """
    for _ in range(15):
        actor = Plain.options(name="again", get_if_exists=True).remote()
        assert phalanx.get(actor.ping.remote(), timeout=60) == "pong"
        del actor


@pytest.mark.parametrize("how", ["exit_actor", "last handle"])
def test_the_name_of_an_actor_is_free_while_its_process_ends(tmp_path, how):
    actor = Lingering.options(name="n").remote(tmp_path)
    pid = phalanx.get(actor.pid.remote(), timeout=60)
    if how == "exit_actor":
        actor.leave.remote()
    else:
        del actor
    eventually((tmp_path / "ends").exists)
    with pytest.raises(ValueError, match="'n'"):
        phalanx.get_actor("n")
    assert phalanx.util.list_named_actors() == []
    following = Lingering.options(name="n", get_if_exists=True).remote(tmp_path)
    assert phalanx.get(following.pid.remote(), timeout=60) != pid
    (tmp_path / "end").touch()
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))
    assert phalanx.get(phalanx.get_actor("n").pid.remote(), timeout=60) != pid
