"""Gangs of actors: the actors are created together and placed apart, and they end with their
handles.
"""

from __future__ import annotations

import os

import pytest
from tests.polling import eventually
from tests.present import own_gang

import phalanx
from phalanx.errors import GangInfeasibleError

from .conftest import none_left


@phalanx.remote(num_gpus=1, max_restarts=1)
class Trainer:
    def __init__(self, base):
        self.base = base

    def rank(self):
        gang = own_gang()
        return self.base + gang.rank, gang.devices, os.environ["WORLD_SIZE"]

    def stop(self):
        os._exit(1)


def test_actors_of_a_gang_know_their_ranks_and_devices(machine, get):
    crew = Trainer.gang(3).remote(10)
    told = get([actor.rank.remote() for actor in crew])
    assert [rank for rank, _, _ in told] == [10, 11, 12]
    assert len({tuple(devices) for _, devices, _ in told}) == 3
    assert {size for _, _, size in told} == {"3"}


def test_their_places_are_free_once_their_handles_are_gone(machine, get):
    crew = Trainer.gang(4).remote(0)
    get([actor.rank.remote() for actor in crew])
    del crew
    eventually(none_left)


def test_an_actor_that_restarts_keeps_its_place_and_rank(machine, get):
    crew = Trainer.gang(2).remote(0)
    before = get(crew[1].rank.remote())
    crew[1].stop.remote()

    def answers():
        try:
            return get(crew[1].rank.remote()) == before
        except phalanx.exceptions.ActorUnavailableError:
            return False

    eventually(answers)


def test_actors_wait_for_each_other(machine, get):
    crew = Trainer.gang(3).remote(0)
    get([actor.rank.remote() for actor in crew])
    later = Trainer.gang(2).remote(20)
    ranks = [actor.rank.remote() for actor in later]
    assert not phalanx.wait(ranks, timeout=0.2)[0]
    del crew
    assert [rank for rank, _, _ in get(ranks)] == [20, 21]


def test_what_cannot_be_is_said_at_once(machine):
    with pytest.raises(GangInfeasibleError):
        Trainer.gang(5).remote(0)
    with pytest.raises(ValueError, match="cannot have names"):
        Trainer.options(name="one").gang(2).remote(0)
