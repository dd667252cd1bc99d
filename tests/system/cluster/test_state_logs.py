"""Logs by `phalanx.util.state`: which process they belong to, which lines are shown, and what is
refused.
"""

from __future__ import annotations

import sys

import pytest
from tests.polling import eventually

import phalanx
from phalanx.errors import StateQueryError
from phalanx.util import state

RED = "\x1b[0;31mred\x1b[0m"


@phalanx.remote(num_cpus=0)
class Speaker:
    def __init__(self):
        for number in range(20):
            print(number)
        print("softly", file=sys.stderr)

    def pid(self):
        import os

        print(RED, "é")
        return os.getpid()


@phalanx.remote(num_cpus=0)
def speaks(text):
    print(text)
    print("aside", file=sys.stderr)


@pytest.fixture
def node(new_cluster):
    new_cluster(1)
    (node,) = state.list_nodes()
    return node


def read(**of):
    return "".join(state.get_log(**of))


def test_an_actors_log_by_its_id_its_pid_and_its_files_name(node, get):
    actor = Speaker.remote()
    pid = get(actor.pid.remote())
    id, on = actor._actor_id.hex(), node.node_id
    whole = "".join(f"{number}\n" for number in range(20)) + f"{RED} é\n"
    eventually(lambda: read(actor_id=id) == whole)
    assert read(node_ip=node.node_ip, pid=pid) == whole
    assert read(actor_id=id, tail=1, filter_ansi_code=True) == "red é\n"
    assert b"".join(state.get_log(actor_id=id, tail=1, encoding=None)) == f"{RED} é\n".encode()
    eventually(lambda: read(actor_id=id, suffix="err") == "softly\n")
    (name,) = state.list_logs(node_id=on, glob_filter=f"worker*-{pid}.out")["worker_out"]
    assert read(node_id=on, filename=name) == whole
    assert set(state.list_logs(node_ip=node.node_ip)) >= {"raylet", "worker_out", "worker_err"}


def test_a_tasks_log_is_what_it_printed(node, get):
    refs = [speaks.options(name=f"speaks {n}").remote(f"text {n}") for n in range(3)]
    get(refs)
    id = refs[1].task_id().hex()

    def is_whole():
        return read(task_id=id) == "text 1\n" and read(task_id=id, suffix="err") == "aside\n"

    eventually(lambda: any(row.task_id == id for row in state.list_tasks()) and is_whole())


def test_a_call_has_a_log_where_its_actor_says_so(node, get):
    told = {"env_vars": {"RAY_ENABLE_RECORD_ACTOR_TASK_LOGGING": "1", "PASSWORD": "secret"}}
    actor = Speaker.options(runtime_env=told).remote()
    call = actor.pid.remote()
    get(call)
    eventually(lambda: read(task_id=call.task_id().hex()) == f"{RED} é\n")
    (row,) = state.list_actors(detail=True)
    assert "RAY_ENABLE_RECORD_ACTOR_TASK_LOGGING" in row.serialized_runtime_env
    assert "secret" not in str(row)


def test_what_goes_on_is_followed(node, get):
    actor = Speaker.remote()
    get(actor.pid.remote())
    log = state.get_log(actor_id=actor._actor_id.hex(), follow=True, _interval=0.01)
    seen = ""
    while RED not in seen:
        seen += next(log)
    actor.pid.remote()
    assert RED in next(log)


def refused(what, **of):
    with pytest.raises(StateQueryError, match=what):
        read(**of)


def test_what_is_no_log_is_refused(node, get):
    actor = Speaker.remote()
    call = actor.pid.remote()
    get(call)
    on, id = node.node_id, actor._actor_id.hex()
    refused("There is no log '../../etc/passwd'", node_id=on, filename="../../etc/passwd")
    refused("There is no node with node_id no", node_id="no", filename="raylet.out")
    refused("Worker with pid 1 not found", node_id=on, pid=1)
    refused("Actor ID no not found", actor_id="no")
    refused(f"ray logs actor --id {id}", task_id=call.task_id().hex())
    refused("At least 1 of them", node_id=on)
    refused("ray job logs", submission_id="raysubmit_1")
    with pytest.raises(ValueError, match="At least one of node ip and node id"):
        state.list_logs()
    with pytest.raises(ValueError, match="suffix must be 'out' or 'err'"):
        state.get_log(actor_id=id, suffix="log")
