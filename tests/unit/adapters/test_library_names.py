"""Names of Ray's core that Ray's libraries import: they behave as the libraries expect."""

from __future__ import annotations

import gc
import importlib
import logging
import subprocess
import sys
from unittest.mock import MagicMock

import pytest
from tests.polling import eventually

import phalanx
from phalanx.actor import ActorHandle
from phalanx.adapters.ray.modules import debug, internal_kv, log
from phalanx.adapters.ray.modules.autoscaling import request_resources
from phalanx.adapters.ray.modules.constants import NUMBERS
from phalanx.adapters.ray.modules.locations import get_local_object_locations, get_object_locations
from phalanx.adapters.ray.modules.memory_info import (
    get_memory_info_reply,
    get_state_from_address,
)
from phalanx.adapters.ray.modules.pickling import dumps_debug
from phalanx.adapters.ray.modules.state import state
from phalanx.adapters.ray.modules.usage import TagKey, usage_stats_enabled
from phalanx.adapters.ray.modules.worker import global_worker
from phalanx.api import session
from phalanx.errors import ActorDiedError, RpcError
from phalanx.util.placement_group import _valid_resource_shape
from phalanx.util.state import list_workers

LARGE = b"x" * 1_000_000


@pytest.fixture(scope="module")
def runtime():
    phalanx.init(address="local", num_cpus=1)
    yield
    phalanx.shutdown()


def test_asking_the_process_starts_no_runtime():
    assert not phalanx.is_initialized()
    assert global_worker.actor_id is None
    assert global_worker.current_task_id is None
    assert global_worker.mode is None
    assert not phalanx.is_initialized()


def test_steps_after_init_run_each_time_and_in_order(monkeypatch):
    steps: list[object] = []
    first = [lambda: steps.append(phalanx.is_initialized()), lambda: steps.append("second")]
    monkeypatch.setattr(session, "after_init", first)
    for _ in range(2):
        phalanx.init(address="local", num_cpus=1)
        phalanx.init(address="local", ignore_reinit_error=True)
        phalanx.shutdown()
    assert steps == [True, "second"] * 2


def test_objects_have_a_size_and_large_ones_a_node(runtime):
    small, large = phalanx.put(1), phalanx.put(LARGE)
    found = get_local_object_locations([small, large])
    assert found[small]["node_ids"] == []
    assert 0 < found[small]["object_size"] < 100
    assert found[large]["node_ids"] == [phalanx.get_runtime_context().get_node_id()]
    assert found[large]["object_size"] >= len(LARGE)
    assert get_object_locations([large])[large] == found[large]
    used = global_worker.core_worker.get_local_memory_store_bytes_used()
    assert found[small]["object_size"] <= used < len(LARGE)


def test_an_actor_that_leaves_by_its_own_will_has_not_crashed(runtime):
    @phalanx.remote
    class Leaver:
        def leave(self):
            phalanx.actor.exit_actor()

    leaver = Leaver.remote()
    (worker,) = list_workers(filters=[("actor_id", "=", leaver._actor_id.hex())], detail=True)
    leaver.leave.remote()
    of_it = [("pid", "=", worker.pid), ("is_alive", "=", False)]
    eventually(lambda: list_workers(filters=of_it, detail=True))
    (ended,) = list_workers(filters=of_it, detail=True)
    assert ended.exit_type == "INTENDED_USER_EXIT"


def test_the_memory_of_all_nodes_is_told(runtime):
    kept = phalanx.put(LARGE)
    stats = get_memory_info_reply(get_state_from_address()).store_stats
    assert stats.num_local_objects >= 1
    assert len(LARGE) <= stats.object_store_bytes_used <= stats.object_store_bytes_avail
    assert stats.spilled_bytes_total == stats.spilled_objects_total == 0
    del kept


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"num_cpus": 1.5}, TypeError),
        ({"bundles": ({"CPU": 1},)}, TypeError),
        ({"bundles": [("CPU", 1)]}, TypeError),
        ({"bundles": [{1: 1}]}, TypeError),
        ({"bundles": [{"CPU": True}]}, TypeError),
        ({"bundle_label_selectors": [{"a": "b"}]}, ValueError),
        ({"bundles": [{"CPU": 1}], "bundle_label_selectors": []}, ValueError),
    ],
)
def test_nodes_that_nobody_adds_are_asked_for_in_form(asked, error):
    request_resources(num_cpus=10_000, bundles=[{"CPU": 1, "GPU": 0.5}])
    with pytest.raises(error):
        request_resources(**asked)


def test_a_mock_of_a_handle_has_an_id():
    mock = MagicMock(spec=ActorHandle)
    mock._actor_id.hex.return_value = "ab"
    assert mock._actor_id.hex() == "ab"


def test_what_is_not_there_yet_has_no_size(runtime):
    @phalanx.remote(num_cpus=2)
    def never():
        return 1

    waiting = never.remote()
    assert get_local_object_locations([waiting])[waiting]["object_size"] is None
    phalanx.cancel(waiting)


def test_an_object_that_goes_out_of_scope_is_told_of_once_no_task_holds_it(runtime):
    @phalanx.remote
    class Gate:
        def __init__(self):
            self.is_open = False

        def open(self):
            self.is_open = True

        def look(self):
            return self.is_open

    @phalanx.remote(num_cpus=0)
    def hold(value, gate):
        eventually(lambda: phalanx.get(gate.look.remote()) or None)

    gate = Gate.options(num_cpus=0, max_concurrency=2).remote()
    ref = phalanx.put(LARGE)
    name = ref.binary()
    gone: list[bytes] = []
    assert global_worker.core_worker.add_object_out_of_scope_callback(ref, gone.append)
    held = hold.remote(ref, gate)
    del ref
    gc.collect()
    assert gone == []
    phalanx.get(gate.open.remote())
    phalanx.get(held)
    eventually(lambda: gone == [name] or None)


def test_a_class_is_pickled_as_it_was_said_for_a_while(runtime):
    class Plain:
        pass

    context = global_worker.get_serialization_context()
    context._register_cloudpickle_reducer(Plain, lambda _: (int, ("7",)))
    pickled = dumps_debug(Plain())
    context._unregister_cloudpickle_reducer(Plain)
    assert __import__("pickle").loads(pickled) == 7
    assert type(__import__("pickle").loads(dumps_debug(Plain()))).__name__ == "Plain"
    assert context.serialize(bytearray(LARGE)).total_bytes >= len(LARGE)


def test_what_cannot_be_pickled_is_named():
    with pytest.raises(TypeError, match=r"\['lock'\]"):
        dumps_debug({"lock": importlib.import_module("threading").Lock()})


def test_no_node_drains_and_none_is_promised(runtime):
    assert state.get_draining_nodes() == {}
    assert state.get_max_resources_from_cluster_config() == {}


def test_the_context_knows_the_worker_and_the_cluster_has_an_id(runtime):
    worker = phalanx.get_runtime_context().worker
    assert worker is global_worker
    assert worker.mode == 0
    assert len(bytes.fromhex(worker.node.cluster_id.hex())) == 28


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ({"CPU": 1}, True),
        ({"CPU": 2, "GPU": 1}, False),
        ({"CPU": 1, "GPU": 1}, True),
        ({"CPU": 3}, False),
        ({"bundle": 5}, True),
        ({}, True),
    ],
)
def test_a_demand_fits_when_one_bundle_has_all_of_it(wanted, fits):
    assert _valid_resource_shape(wanted, [{"CPU": 2}, {"CPU": 1, "GPU": 1}]) is fits


def test_a_handle_says_what_is_known_here_of_its_actor(runtime):
    @phalanx.remote(num_cpus=0)
    class Plain:
        def ping(self):
            return "pong"

    actor = Plain.remote()
    assert phalanx.get(actor.ping.remote()) == "pong"
    assert actor._get_local_state() == 2  # ALIVE, by Ray's number
    phalanx.kill(actor)
    eventually(lambda: actor._get_local_state() == 4)


def test_a_key_is_new_once_a_period(monkeypatch):
    monkeypatch.setattr(debug, "_said", {})
    monkeypatch.setattr(debug, "_every_s", None)
    monkeypatch.setattr(debug, "_is_off", False)
    assert [debug.log_once("a"), debug.log_once("a"), debug.log_once("b")] == [True, False, True]
    monkeypatch.setattr(debug, "_PERIOD_S", 0.0)
    debug.enable_periodic_logging()
    assert debug.log_once("a")
    debug.reset_log_once("b")
    assert debug.log_once("b")
    debug.disable_log_once_globally()
    assert not debug.log_once("c")


def test_messages_of_libraries_are_shown_on_what_stderr_is_then(monkeypatch, capsys):
    monkeypatch.setattr(log.logger, "handlers", [])
    monkeypatch.setattr(log.logger, "level", logging.WARNING)
    monkeypatch.setattr(log.logger, "propagate", True)
    log.configure()
    log.configure()
    logging.getLogger("ray.tune").info("a trial began")
    assert capsys.readouterr().err.count("a trial began") == 1


def test_what_is_said_of_use_goes_nowhere():
    assert TagKey.TUNE_SCHEDULER == "TUNE_SCHEDULER"
    assert not usage_stats_enabled()


def test_numbers_of_either_kind_are_found_in_texts():
    assert NUMBERS.sub("N", "rank 12 at 0x7f1e failed") == "rank N at N failed"


def test_a_dead_actor_was_not_preempted(runtime):
    @phalanx.remote(num_cpus=0)
    class Victim:
        def work(self):
            return 1

    victim = Victim.remote()
    phalanx.get(victim.work.remote())
    phalanx.kill(victim)
    with pytest.raises(ActorDiedError) as raised:
        phalanx.get(victim.work.remote())
    assert raised.value.preempted is False


def test_an_error_of_a_call_has_its_code():
    error = RpcError("too large", rpc_code=8)
    assert (str(error), error.rpc_code) == ("too large", 8)


IMPORTS = """
import ray
import ray.cloudpickle as pickle
from ray.cloudpickle import cloudpickle
from ray._raylet import StreamingGeneratorStats
from ray.util import client, log_once

print(pickle.loads(pickle.dumps_debug(1)), cloudpickle.dumps is pickle.dumps)
print(ray.util.client.ray.is_connected(), ray.logger.name, ray.SCRIPT_MODE, log_once("x"))


@ray.remote
def items():
    seen = yield 1
    yield type(seen) is StreamingGeneratorStats and seen.object_creation_dur_s >= 0
    yield from [2, 3]
    yield "end"


ray.init(num_cpus=1)
print([ray.get(ref) for ref in items.remote()])
"""


def test_programs_import_them(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(IMPORTS)
    done = subprocess.run(
        [sys.executable, "-m", "phalanx.compat.ray", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    expected = "1 True\nFalse ray 0 True\n[1, True, 2, 3, 'end']\n"
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


@phalanx.remote
def _kept(key):
    return internal_kv._internal_kv_get(key, namespace="n")


def test_the_key_value_table_is_the_same_for_workers_and_no_actor(runtime):
    assert internal_kv._internal_kv_put("k", "1", overwrite=False, namespace="n") is False
    assert internal_kv._internal_kv_put("k", "2", overwrite=False, namespace="n") is True
    assert phalanx.get(_kept.remote("k")) == b"1"
    assert internal_kv._internal_kv_get("k") is None
    assert internal_kv._internal_kv_list("", namespace="n") == [b"k"]
    assert internal_kv._internal_kv_del("", del_by_prefix=True, namespace="n") == 1
    assert not internal_kv._internal_kv_exists("k", namespace="n")
    assert phalanx.util.list_named_actors(all_namespaces=True) == []
