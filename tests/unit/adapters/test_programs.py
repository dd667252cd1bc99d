"""Ray programs without a change, run as users run them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

PROGRAM = """
import sys
import ray
from ray.util.actor_pool import ActorPool
from ray.exceptions import RayTaskError


@ray.remote
def square(value):
    return ray.get(ray.put(value * value))


@ray.remote
def name_in_a_worker():
    import ray.util.queue
    return ray.util.queue.Queue.__module__


@ray.remote
class Counter:
    def __init__(self):
        self.total = 0

    def add(self, value):
        self.total += value
        return self.total


class Plain:
    def __init__(self, value):
        self.value = value


@ray.remote
def fail(plain):
    raise ValueError(plain.value)


if __name__ == "__main__":
    ray.init(num_cpus=2)
    print(__file__.endswith("program.py"), sys.argv[1:])
    print(ray.get([square.remote(i) for i in range(4)]))
    print(ray.get(name_in_a_worker.remote()))
    counter = Counter.remote()
    print(ray.get([counter.add.remote(i) for i in range(4)]))
    print(list(ActorPool([Counter.remote()]).map(lambda a, v: a.add.remote(v), [1, 2])))
    try:
        ray.get(fail.remote(Plain("told")))
    except RayTaskError as error:
        print(isinstance(error, ValueError), error.cause)
    ray.shutdown()
"""

EXPECTED = """\
True ['--flag', 'value']
[0, 1, 4, 9]
phalanx.util.queue
[0, 1, 3, 6]
[1, 3]
True told
"""


BY_ITSELF = """
import ray
from ray.util.state import list_actors, list_objects

print(ray.is_initialized())


@ray.remote
def look():
    return ray.is_initialized(), ray._private.worker.global_worker.mode


print(ray.get(look.remote()), ray.is_initialized())
print(ray.util.get_node_ip_address() == ray.nodes()[0]["NodeManagerAddress"], list_actors())
kept = ray.put(1)
counts = ray._private.worker.global_worker.core_worker.get_all_reference_counts
print([row.object_id for row in list_objects()] == [kept.hex()])
print(list(counts()) == [kept.hex().encode()])
print(kept.hex() in ray._private.internal_api.memory_summary())
ray._private.internal_api.free([kept])
del kept
print(list_objects(), counts())
"""

OF_A_JOB = """
import os
import ray
from ray.job_config import JobConfig
from ray.util.joblib.ray_backend import RayBackend

os.environ["RAY_OVERRIDE_RESOURCES"] = '{"CPU": 3, "custom": 1}'
os.environ["RAY_OVERRIDE_LABELS"] = '{"disk": "fast"}'
os.environ["RAY_NODE_ZONE"] = "b"
ray.init(
    num_cpus=1,
    resources={"custom": 5, "other": 2},
    job_config=JobConfig(ray_namespace="ours", default_actor_lifetime="detached"),
)
has = ray.cluster_resources()
labels = ray.nodes()[0]["Labels"]
print(has["CPU"], has["custom"], has["other"], labels["disk"], labels["ray.io/availability-zone"])
print(ray.get_runtime_context().namespace)


@ray.remote
class Child:
    def ping(self):
        return "here"


@ray.remote
class Parent:
    def bear(self):
        self.child = Child.remote()
        ray.get(self.child.ping.remote())
        return self.child


parent = Parent.options(lifetime="non_detached").remote()
child = ray.get(parent.bear.remote())
ray.kill(parent)
print(ray.get(child.ping.remote()))
"""

OF_DASK = """
from contextlib import redirect_stdout
from io import StringIO

import dask
import ray
from ray.util.dask import RayDaskCallback, disable_dask_on_ray, enable_dask_on_ray, ray_dask_get
from ray.util.dask.callbacks import ProgressBarCallback


class Submitted(RayDaskCallback):
    def __init__(self):
        super().__init__(ray_finish=lambda result: self.keys.append(result))
        self.keys = []

    def _ray_postsubmit(self, task, key, deps, object_ref):
        self.keys.append(key.partition("-")[0])

    def _ray_pretask(self, key, object_refs):
        return "pre"

    def _ray_posttask(self, key, result, pre_state):
        assert pre_state == "pre"


ray.init(num_cpus=2)
whole = dask.delayed(sum)([dask.delayed(abs)(-1), 2])
print(whole.compute(scheduler=ray_dask_get, ray_remote_args={"num_cpus": 2}))
with enable_dask_on_ray():
    print(dask.config.get("scheduler") is ray_dask_get, whole.compute())
enable_dask_on_ray()
disable_dask_on_ray()
print(dask.config.get("scheduler"))
with redirect_stdout(StringIO()) as shown, Submitted() as submitted, ProgressBarCallback():
    assert len(RayDaskCallback.ray_active) == 2
    whole.compute(scheduler=ray_dask_get, _ray_enable_progress_bar=True)
assert not RayDaskCallback.ray_active
assert "100% Completed" in shown.getvalue()
assert shown.getvalue().endswith("All tasks are completed.\\n")
print(submitted.keys)
kept = whole.persist(scheduler=ray_dask_get)
assert not isinstance(next(iter(kept.dask.values())), int), "it is in the store"
print(kept.compute(scheduler=ray_dask_get), whole.persist(scheduler="sync").compute())
try:
    whole.compute(scheduler=ray_dask_get, resources={"CPU": 1})
except ValueError as error:
    print(error)
"""

OF_DASK_SAYS = """3
True 3
None
['abs', 'sum', (3,)]
3 3
Use ray_remote_args={"resources": {...}} instead of resources={...} to specify what tasks require.
"""

SPAWNING = """
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

import ray


@ray.remote
def double(value):
    return 2 * value


def in_another_process(value):
    return ray.is_initialized(), ray.__version__, value + 1, sys.argv[1:]


if __name__ == "__main__":
    value = ray.get(double.remote(20))
    multiprocessing.set_start_method("spawn")
    with ProcessPoolExecutor(1) as pool:
        print(pool.submit(in_another_process, value).result())
"""

UTILITIES = """
import ray
from ray.util.actor_group import ActorGroup
from ray.util.metrics import Counter, Gauge, Histogram


class Member:
    def __init__(self, start):
        self.value = start

    def add(self, amount):
        self.value += amount
        return self.value


group = ActorGroup(Member, num_actors=2, num_cpus_per_actor=0, init_args=(1,))
print(len(group), ray.get(group.add.remote(2)))
rows = ray.state.actors()
assert [row["State"] for row in rows.values()] == ["ALIVE"] * 2
assert ray._private.state.actors(next(iter(rows)))["ActorClassName"] == "Member"
assert ray.state.actors(actor_state_name="DEAD") == {}
group.shutdown()
print(len(group))

counter = Counter("done", tag_keys=("who",)).set_default_tags({"who": "all"})
counter.inc()
counter.inc(2, tags={"who": "me"})
print(counter.info["tag_keys"], counter.info["default_tags"])
gauge = Gauge("size")
gauge.set(3)
latency = Histogram("latency", boundaries=[1, 10])
for value in (0.5, 5, 50, 60):
    latency.observe(value)
print(gauge.info["name"], latency.info["boundaries"])
"""

WAITING_CALLS = """
import asyncio

import ray
from ray.util.state import list_tasks


@ray.remote(max_concurrency=2)
class Slow:
    async def __init__(self):
        self.end = asyncio.Event()

    async def wait(self):
        await self.end.wait()


slow = Slow.remote()
ray.get(slow.__ray_ready__.remote())
calls = [slow.wait.remote() for _ in range(5)]
print([row.state for row in list_tasks(filters=[("name", "=", "Slow.wait")])].count("RUNNING"))
waiting = ("state", "=", "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY")
print(len(list_tasks(filters=[waiting])))
ray.cancel(calls[4])
try:
    ray.get(calls[4])
except ray.exceptions.TaskCancelledError:
    print(len(list_tasks(filters=[waiting])), len(list_tasks(filters=[("state", "=", "FAILED")])))
"""

ON_A_CLUSTER = """
import os

import ray
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
cluster.add_node(num_cpus=2, _system_config={})
cluster.wait_for_nodes()
for address in (cluster.address, "auto"):
    ray.init(address=address)
    print(len(ray.nodes()), ray.cluster_resources()["CPU"])
    ray.shutdown()
os.environ.pop("PHALANX_ADDRESS", None)
for address in ("", cluster.address):
    os.environ["RAY_ADDRESS"] = address
    ray.init()
    print(len(ray.nodes()))
    ray.shutdown()
cluster.shutdown()
"""

SWITCHED_OFF = """
import ray
from ray._private import auto_init_hook

print(auto_init_hook.enable_auto_connect)
auto_init_hook.enable_auto_connect = False


@ray.remote
def task():
    return 1


for call in (task.remote, ray.nodes, lambda: ray.get([]), lambda: ray.put(1)):
    try:
        call()
    except ray.exceptions.RaySystemError as error:
        print(error)
print(ray.is_initialized())
ray.init(num_cpus=1, labels={"tier": "gold"})
print(ray.get(task.remote()))
print(sorted(ray.nodes()[0]["Labels"]))


@ray.remote
class Actor:
    def method(self):
        return 1


print([name for name in dir(Actor) if name[0] != "_"])
print("__init__" in dir(Actor.remote()))
"""

OTHER_PROGRAM = """
import subprocess
import sys
import ray

ray.init(num_cpus=1, resources={"first": 1}, namespace="shared")


@ray.remote(num_cpus=0)
class Kept:
    def value(self):
        return "kept"


kept = Kept.options(name="kept").remote()
child = "import ray; ray.init('auto', namespace='shared'); print(ray.cluster_resources()['first'])"
child += "; print(ray.get(ray.get_actor('kept').value.remote()))"
with open(sys.argv[1], "w") as file:
    file.write(child)
command = [sys.executable, "-m", "phalanx.compat.ray", sys.argv[1]]
print(subprocess.run(command, text=True, capture_output=True).stdout)
"""


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "phalanx.compat.ray", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_an_unchanged_program_runs(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = run(str(path), "--flag", "value")
    assert (done.returncode, done.stdout) == (0, EXPECTED), done.stderr


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (BY_ITSELF, "False\n(True, 1) True\nTrue []\nTrue\nTrue\nTrue\n[] {}\n"),
        (OF_A_JOB, "3.0 1.0 2.0 fast b\nours\nhere\n"),
        (OF_DASK, OF_DASK_SAYS),
        (SPAWNING, "(False, '2.60.0', 41, [])\n"),
        (UTILITIES, "2 [3, 3]\n0\n('who',) {'who': 'all'}\nsize [1, 10]\n"),
        (WAITING_CALLS, "2\n3\n2 1\n"),
        (ON_A_CLUSTER, "2 3.0\n2 3.0\n2\n2\n"),
    ],
)
def test_programs_that_import_ray_alone(tmp_path, program, expected):
    path = tmp_path / "program.py"
    path.write_text(program)
    done = run(str(path))
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


def test_a_neighbouring_module_is_found(tmp_path):
    (tmp_path / "neighbour.py").write_text("ANSWER = 42\n")
    path = tmp_path / "program.py"
    path.write_text("import neighbour\nprint(neighbour.ANSWER)\n")
    assert run(str(path)).stdout == "42\n"


def test_the_exit_code_is_the_program_s(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("raise SystemExit(3)\n")
    assert run(str(path)).returncode == 3


def test_an_error_is_told_with_the_program_s_lines(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("import ray\n\nray.no_such_thing\n")
    done = run(str(path))
    assert done.returncode == 1
    assert 'program.py", line 3' in done.stderr
    assert "Phalanx has no ray.no_such_thing" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"), [((), "usage"), (("nowhere.py",), "no file 'nowhere.py'")]
)
def test_bad_calls_are_explained(arguments, text):
    done = run(*arguments)
    assert done.returncode == 1
    assert text in done.stderr


def test_nothing_starts_by_itself_where_that_is_switched_off(tmp_path):
    words = "Ray has not been started yet. Call ray.init() first."
    (tmp_path / "program.py").write_text(SWITCHED_OFF)
    done = run(str(tmp_path / "program.py"))
    assert done.stdout.splitlines() == [
        "True",
        *[words] * 4,
        "False",
        "1",
        "['ray.io/node-id', 'tier']",
        "['bind', 'method', 'options', 'remote']",
        "True",
    ], done.stderr


def test_auto_finds_what_another_program_has_started_for_itself(tmp_path):
    (tmp_path / "program.py").write_text(OTHER_PROGRAM)
    with tempfile.TemporaryDirectory(dir="/tmp") as of_its_own:  # no sessions of others are there
        child = str(tmp_path / "child.py")
        done = run(str(tmp_path / "program.py"), child, XDG_RUNTIME_DIR=of_its_own)
    assert done.stdout.split() == ["1.0", "kept"], done.stderr
