"""The cluster to which `phalanx.init` connects: by an address, by PHALANX_ADDRESS, or the one on
this machine.
"""

from __future__ import annotations

import json

import pytest
from tests.ports import free_port

PROGRAM = """
import json, os, sys
import phalanx

for named, address, options in json.loads(sys.argv[1]):
    os.environ.pop("PHALANX_ADDRESS", None)
    if named:
        os.environ["PHALANX_ADDRESS"] = named
    try:
        with phalanx.init(address, log_to_driver=False, **options) as runtime:
            print(json.dumps(runtime["gcs_address"]))
    except (ConnectionError, ValueError) as error:
        print(json.dumps([type(error).__name__, str(error)]))
"""
OWN = "pid:"
"""The beginning of the address of a runtime that belongs to the program itself."""


def connect(machine, *cases):
    """Return the result of `init` for each of the cases: (PHALANX_ADDRESS, address, options)."""
    ended = machine.python(PROGRAM, json.dumps(cases))
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.fixture
def nobody():
    return f"127.0.0.1:{free_port()}"


def test_a_cluster_that_runs_here_is_found(running, nobody):
    there = running.address
    by_name = there.replace("127.0.0.1", "localhost")
    found = connect(
        running,
        ["", None, {}],
        ["", "auto", {}],
        ["", there, {}],
        ["", by_name, {}],
        [there, None, {}],
        [by_name, "auto", {}],
        ["local", "auto", {}],
        [nobody, there, {}],
    )
    assert found == [there] * 8


def test_a_runtime_of_ones_own_is_started(running, machine):
    small = {"num_cpus": 1, "object_store_memory": 80_000_000}
    cases = [["", "local", small], ["local", None, small]]
    found = [*connect(running, *cases), *connect(machine, ["", None, small])]
    assert [one.startswith(OWN) for one in found] == [True] * 3


def test_where_there_is_no_cluster_that_is_said(running, machine, nobody):
    ((kind, text),) = connect(machine, ["", "auto", {}])
    assert kind == "ConnectionError"
    assert "No running Phalanx was found" in text
    small = {"num_cpus": 1}
    silent, named, automatic, wrong, amounts = connect(
        running,
        ["", nobody, {}],
        [nobody, None, {}],
        [nobody, "auto", {}],
        ["", "6380", {}],
        ["", None, small],
    )
    for kind, text in (silent, named, automatic):
        assert kind == "ConnectionError"
        assert f"Nothing listens at {nobody}" in text
    assert wrong[0] == "ValueError"
    assert "HOST:PORT" in wrong[1]
    assert amounts[0] == "ValueError"
    assert 'address="local"' in amounts[1]


def test_a_driver_needs_a_node_of_the_cluster_on_its_machine(running, machine):
    ((kind, text),) = connect(machine, ["", running.address, {}])
    assert kind == "ConnectionError"
    assert f"phalanx start --address {running.address}" in text


JOINED = """
import subprocess, sys
import phalanx

@phalanx.remote
class Counter:
    def add(self):
        return 7

SECOND = '''
import sys
import phalanx
phalanx.init(sys.argv[1], namespace="n")
print(phalanx.get(phalanx.get_actor("c").add.remote()), phalanx.get_runtime_context().gcs_address)
'''
runtime = phalanx.init("local", num_cpus=1, namespace="n")
counter = Counter.options(name="c").remote()
address = runtime["address"]
ended = subprocess.run([sys.executable, "-c", SECOND, address], capture_output=True, text=True)
assert ended.stdout.split() == ["7", address], ended
assert phalanx.get(counter.add.remote()) == 7
print("both")
"""


def test_another_program_joins_the_runtime_that_a_program_has_started(machine):
    ended = machine.python(JOINED)
    assert ended.stdout.split()[-1:] == ["both"], ended.stderr


def test_a_program_that_has_started_nothing_cannot_be_joined(machine):
    (error,) = connect(machine, ["", "pid:1", {}])
    assert error[0] == "NoClusterError"
    assert "pid:1 is no process of this user" in error[1]
