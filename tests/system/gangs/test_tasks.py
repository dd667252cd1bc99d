"""Gangs of tasks: what members know about themselves, what they hold, what is refused, how they
end.
"""

from __future__ import annotations

import os
import socket

import pytest
from tests.polling import eventually
from tests.present import own_gang

import phalanx
from phalanx import exceptions as errors
from phalanx.errors import GangInfeasibleError, QueueUnavailableError

from .conftest import none_left, rows_of_gangs


@phalanx.remote(num_gpus=1)
def who(word=None):
    gang = own_gang()
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {
        "rank": gang.rank,
        "world": gang.world_size,
        "local": gang.local_rank,
        "address": gang.address,
        "ports": gang.ports,
        "devices": gang.devices,
        "of_all": [member.devices for member in gang.members],
        "env": [os.environ[name] for name in names],
        "visible": os.environ["CUDA_VISIBLE_DEVICES"],
        "word": word,
    }


def test_every_member_knows_its_rank_the_others_and_its_devices(machine, get):
    members = get(who.gang(4, ports=2).remote("hello"))
    assert [m["rank"] for m in members] == [0, 1, 2, 3]
    assert sorted(d for m in members for d in m["devices"]) == [0, 1, 2, 3]
    ports = members[0]["ports"]
    assert len(set(ports)) == 2
    for rank, member in enumerate(members):
        assert member["world"] == 4
        assert member["local"] == rank
        assert member["ports"] == ports
        assert member["word"] == "hello"
        assert member["of_all"] == [m["devices"] for m in members]
        assert member["visible"] == str(member["devices"][0])
        assert member["env"] == [str(rank), "4", str(rank), "4", "127.0.0.1", str(ports[0])]


def test_an_ordinary_task_is_in_no_gang_and_sees_no_rank(machine, get):
    @phalanx.remote(num_cpus=1)
    def alone():
        return phalanx.get_runtime_context().gang, os.environ.get("RANK")

    get(who.gang(4).remote())
    assert get([alone.remote() for _ in range(8)]) == [(None, None)] * 8


def test_the_ports_are_free_for_the_members(machine, get):
    @phalanx.remote
    def listen():
        gang = own_gang()
        with socket.socket() as server:
            server.bind(("", gang.ports[gang.rank]))
            server.listen()
            return True

    assert get(listen.gang(2, ports=2).remote()) == [True, True]


def test_more_gangs_than_fit_run_one_after_another_and_leave_nothing(machine, get):
    gangs = [who.gang(size).remote(number) for number, size in enumerate((3, 4, 1, 2, 4, 2, 3))]
    for number, gang in enumerate(gangs):
        assert [m["word"] for m in get(gang)] == [number] * len(gang)
    eventually(none_left)


def test_no_gang_starts_in_part(machine, get, room):
    @phalanx.remote
    def hold(room, name):
        room.say(f"{name}-{os.environ['RANK']}")
        room.wait("go")

    first = hold.gang(3).remote(room, "first")
    assert first.wait_started(60)
    second = hold.gang(2).remote(room, "second")
    third = hold.gang(1).remote(room, "third")
    room.wait("third-0")  # which fits beside the first, so the second was looked at before
    assert "second-0" not in room.words()
    assert not second.wait_started(0.01)
    room.say("go")
    get([*first, *second, *third])


def test_with_min_members_those_start_that_have_room(machine, get, room):
    @phalanx.remote
    def hold(room):
        gang = own_gang()
        room.say(gang.rank)
        room.wait("go")
        return gang.world_size

    refs = hold.gang(6, min_members=2).remote(room)
    for rank in range(4):
        room.wait(rank)
    room.say("go")
    assert get(refs)[:4] == [4] * 4


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"members": 5}, GangInfeasibleError, "needs 5 members at once and could never have more"),
        ({"members": 2, "queue": "nobody"}, QueueUnavailableError, "no queue 'nobody'"),
        ({"members": 2, "queue": "root"}, QueueUnavailableError, "root"),
        ({"members": 2, "topology": "moon"}, ValueError, "topology is one of 'node'"),
        ({"members": 0}, ValueError, "a gang's size is at least 1, not 0"),
        ({"members": 100_001}, ValueError, "a gang's size is at most 100000, not 100001"),
        ({"members": True}, TypeError, "whole number"),
        ({"members": 2, "min_members": 3}, ValueError, "min_members=3 is more than the gang's 2"),
        ({"members": 2, "ports": 0}, ValueError, "ports is at least 1"),
        ({"members": 2, "grace_s": -1}, ValueError, "grace_s is 0 seconds or more"),
    ],
)
def test_what_cannot_be_is_said_at_once_and_leaves_nothing(machine, options, error, words):
    with pytest.raises(error, match=words):
        who.gang(**options).remote()
    assert rows_of_gangs() == []


def test_a_member_that_is_too_large_is_named_with_the_largest_node(machine):
    with pytest.raises(GangInfeasibleError, match="8 GPU, and the largest node has 4 GPU"):
        who.options(num_gpus=8).gang(1).remote()


def test_when_one_fails_all_end_with_its_error(machine, get):
    @phalanx.remote
    def fail_at(rank):
        if own_gang().rank == rank:
            raise KeyError("bad luck")
        while True:
            pass

    for ref in fail_at.gang(3).remote(2):
        with pytest.raises(KeyError, match="bad luck"):
            get(ref)
    eventually(none_left)


def test_a_gang_that_tolerates_it_goes_on_without_the_failed(machine, get):
    @phalanx.remote
    def fail_at(rank):
        if own_gang().rank == rank:
            raise KeyError("bad luck")
        return "well"

    refs = fail_at.gang(3, min_members=2).remote(1)
    assert get([refs[0], refs[2]]) == ["well", "well"]
    with pytest.raises(KeyError):
        get(refs[1])


def test_a_member_whose_worker_crashes_is_tried_again_with_the_same_rank(machine, get, room):
    @phalanx.remote(max_retries=1)
    def crash_once(room):
        rank = own_gang().rank
        if rank == 1 and not room.hears("crashed"):
            room.say("crashed")
            os._exit(1)
        return rank

    assert get(crash_once.gang(2).remote(room)) == [0, 1]


def test_a_gang_that_is_cancelled_ends_whether_it_waits_or_runs(machine, get, room):
    @phalanx.remote(max_retries=0)
    def hold(room):
        room.say("there")
        room.wait("never")

    running = hold.gang(4).remote(room)
    waiting = hold.gang(4).remote(room)
    room.wait("there")
    for gang in (waiting, running):
        gang.cancel()
        for ref in gang:
            with pytest.raises((errors.TaskPlacementGroupRemoved, errors.WorkerCrashedError)):
                get(ref)
    eventually(none_left)


def test_cancelling_a_member_ends_the_gang(machine, get, room):
    @phalanx.remote
    def hold(room):
        room.say(os.environ["RANK"])
        room.wait("never")

    refs = hold.gang(2).remote(room)
    room.wait(0)
    room.wait(1)
    phalanx.cancel(refs[0], force=True)
    for ref in refs:
        with pytest.raises((errors.TaskCancelledError, errors.WorkerCrashedError)):
            get(ref)
    eventually(none_left)


def test_members_take_references_and_return_several_values(machine, get):
    @phalanx.remote(num_returns=2)
    def both(number):
        return number, own_gang().rank

    number = phalanx.put(5)
    first, second = both.gang(2).remote(number)
    assert get(first) == [5, 0]
    assert get(second) == [5, 1]


def test_what_a_driver_leaves_behind_is_freed(machine, get):
    @phalanx.remote(num_cpus=1)
    def driver():
        who.options(num_gpus=0).gang(2).remote()
        return True

    assert get(driver.remote())
    eventually(none_left)
