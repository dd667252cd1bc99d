"""Starting, stopping and starting again; what is started without a call of `init`; wrong arguments
of `init`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile

import pytest

LOCAL = {"num_cpus": 2, "include_dashboard": False}


@pytest.fixture
def start(fresh):
    """Return a function that calls `init` for a small runtime without any other cluster."""
    return lambda **options: fresh.init(**{**LOCAL, **options})


@pytest.fixture
def runs_alone(monkeypatch):
    """Hide the clusters that others have started on this machine. The runtime directory has a short
    path, because the paths of sockets are limited.
    """
    with tempfile.TemporaryDirectory(prefix="phx", dir="/tmp") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield


@pytest.fixture
def run_script(fresh, tmp_path):
    """Return a function that runs a program in a process, and returns how the program ended."""

    def run(body):
        path = tmp_path / "program.py"
        path.write_text(f"import {fresh.__name__} as ray\n\n{body}")
        command = [sys.executable, str(path)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    return run


def test_is_initialized_follows_init_and_shutdown(fresh, start):
    assert not fresh.is_initialized()
    start()
    assert fresh.is_initialized()
    fresh.shutdown()
    assert not fresh.is_initialized()


def test_shutdown_may_be_repeated(fresh, start):
    fresh.shutdown()
    start()
    assert fresh.shutdown() is None
    fresh.shutdown()


def test_a_second_init_is_refused(fresh, start):
    start()
    with pytest.raises(RuntimeError, match="ignore_reinit_error"):
        start()
    assert fresh.is_initialized()


def test_a_second_init_can_be_ignored(fresh, start):
    start(resources={"kept": 1})
    start(ignore_reinit_error=True)
    assert fresh.cluster_resources()["kept"] == 1


def test_init_tells_where_it_started(fresh, start):
    context = start()
    assert context.address_info["node_id"] == fresh.get_runtime_context().get_node_id()
    assert context.address_info["session_dir"]
    assert context.python_version == ".".join(map(str, sys.version_info[:3]))


def test_the_context_of_init_shuts_down_at_its_end(fresh, start):
    with start():
        assert fresh.get(fresh.put(1)) == 1
    assert not fresh.is_initialized()


def test_the_context_of_init_shuts_down_after_an_error(fresh, start):
    with pytest.raises(KeyError), start():
        raise KeyError
    assert not fresh.is_initialized()


def test_everything_works_again_after_a_restart(fresh, start, get):
    @fresh.remote
    def task():
        return "task"

    @fresh.remote
    class Actor:
        def call(self):
            return "actor"

    for _ in range(2):
        start()
        assert get([task.remote(), Actor.remote().call.remote()]) == ["task", "actor"]
        fresh.shutdown()


def test_a_ref_of_an_earlier_session_is_refused(fresh, start):
    start()
    ref = fresh.put(1)
    fresh.shutdown()
    start()
    with pytest.raises(ValueError):
        fresh.get(ref, timeout=120)


def test_an_actor_of_an_earlier_session_is_gone(fresh, start, get):
    @fresh.remote
    class Actor:
        def call(self):
            return 1

    start()
    actor = Actor.remote()
    get(actor.call.remote())
    fresh.shutdown()
    start()
    with pytest.raises(Exception, match="actor"):
        get(actor.call.remote())


def test_shutdown_ends_workers_and_actors(fresh, start, get, ends):
    import os

    @fresh.remote
    class Actor:
        def pid(self):
            return os.getpid()

    @fresh.remote
    def pid():
        return os.getpid()

    start()
    actor = Actor.remote()
    pids = get([actor.pid.remote(), pid.remote()])
    fresh.shutdown()
    for pid in pids:
        ends(pid)


def test_a_call_starts_a_runtime(fresh, get):
    assert get(fresh.remote(lambda: 1).remote()) == 1
    assert fresh.is_initialized()


def test_put_starts_a_runtime(fresh, get):
    assert get(fresh.put(1)) == 1


def test_an_actor_starts_a_runtime(fresh, get):
    @fresh.remote
    class Actor:
        def call(self):
            return 1

    assert get(Actor.remote().call.remote()) == 1


def test_get_actor_starts_a_runtime(fresh):
    with pytest.raises(ValueError):
        fresh.get_actor("nobody")
    assert fresh.is_initialized()


def test_the_runtime_context_starts_a_runtime(fresh):
    assert fresh.get_runtime_context().get_job_id()
    assert fresh.is_initialized()


def test_decorating_starts_nothing(fresh):
    @fresh.remote(num_cpus=2)
    def task():
        return 1

    task.options(num_cpus=1)
    assert not fresh.is_initialized()


@pytest.mark.parametrize("call", ["nodes", "cluster_resources", "available_resources", "timeline"])
def test_looking_at_a_cluster_that_is_not_there_is_refused(fresh, call):
    with pytest.raises(Exception, match="init"):
        getattr(fresh, call)()
    assert not fresh.is_initialized()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"unknown": 1}, RuntimeError),
        ({"local_mode": True}, RuntimeError),
        pytest.param(
            {"address": "auto"},
            ConnectionError,
            marks=pytest.mark.one_raylet("it would find the cluster of the other tests"),
        ),
        ({"num_cpus": -1}, ValueError),
        ({"num_cpus": 1.5}, ValueError),
        ({"num_cpus": "1"}, (AssertionError, TypeError)),
        ({"num_gpus": -1}, ValueError),
        ({"num_gpus": 0.5}, ValueError),
        ({"resources": {"custom": -1}}, ValueError),
        ({"resources": {"custom": 0.5}}, ValueError),
        ({"resources": {"custom": "1"}}, (AssertionError, TypeError)),
        ({"resources": {"CPU": 1}}, (AssertionError, ValueError)),
        ({"resources": {"GPU": 1}}, (AssertionError, ValueError)),
        ({"resources": {"memory": 1}}, (AssertionError, ValueError)),
        ({"object_store_memory": 1}, ValueError),
        ({"object_store_memory": "1"}, TypeError),
        ({"namespace": 1}, TypeError),
        ({"namespace": ""}, ValueError),
        ({"runtime_env": {"env_vars": {"A": 1}}}, TypeError),
    ],
    ids=str,
)
@pytest.mark.usefixtures("runs_alone")
def test_a_wrong_argument_of_init_is_refused(fresh, options, error):
    with pytest.raises(error):
        fresh.init(**{"include_dashboard": False, **options})


def test_init_may_work_after_it_was_refused(fresh, start, get):
    with pytest.raises(ValueError):
        fresh.init(num_cpus=-1, include_dashboard=False)
    start()
    assert get(fresh.put(1)) == 1


def test_zero_cpus_run_tasks_that_need_none(fresh, start, get):
    start(num_cpus=0)
    assert "CPU" not in fresh.cluster_resources()
    assert get(fresh.remote(lambda: 1).options(num_cpus=0).remote()) == 1


def test_address_local_starts_a_new_runtime(fresh, start):
    start(address="local", resources={"mine": 1})
    assert fresh.cluster_resources()["mine"] == 1


def test_the_namespace_of_init(fresh, start, get):
    @fresh.remote
    class Actor:
        def call(self):
            return 1

    start(namespace="home")
    assert fresh.get_runtime_context().namespace == "home"
    actor = Actor.options(name="resident").remote()
    get(actor.call.remote())
    assert fresh.get_actor("resident", namespace="home") == actor


def test_without_a_namespace_each_session_has_its_own(fresh, start):
    namespaces = set()
    for _ in range(2):
        start()
        namespaces.add(fresh.get_runtime_context().namespace)
        fresh.shutdown()
    assert len(namespaces) == 2


def test_labels_of_init_are_labels_of_the_node(fresh, start, get):
    start(labels={"zone": "a"})
    [node] = fresh.nodes()
    assert node["Labels"]["zone"] == "a"
    task = fresh.remote(lambda: "ran")
    assert get(task.options(label_selector={"zone": "in(a,b)"}).remote()) == "ran"
    with pytest.raises(fresh.exceptions.RayError):
        fresh.get(task.options(label_selector={"zone": "!a"}).remote(), timeout=0.5)


def test_devices_that_are_no_gpus_have_numbers(fresh, start, get, part):
    start(resources={"neuron_cores": 2})

    @fresh.remote(resources={"neuron_cores": 1}, num_cpus=0)
    def held():
        found = fresh.get_runtime_context().get_accelerator_ids()["neuron_cores"]
        return found, os.environ["NEURON_RT_VISIBLE_CORES"]

    (number,), shown = get(held.remote())
    assert number == shown
    assert number in ("0", "1")

    group = part("util").placement_group([{"neuron_cores": 2}])
    get(group.ready())
    strategy = part("util.scheduling_strategies").PlacementGroupSchedulingStrategy(group)
    (inside,), _ = get(held.options(scheduling_strategy=strategy).remote())
    assert inside in ("0", "1")


def test_the_environment_of_init_reaches_tasks_and_actors(fresh, start, get):
    import os

    def read(*_):
        return os.environ.get("CONTRACT_A"), os.environ.get("CONTRACT_B")

    Actor = fresh.remote(type("Reader", (), {"read": read}))
    start(runtime_env={"env_vars": {"CONTRACT_A": "job", "CONTRACT_B": "job"}})
    assert get(fresh.remote(read).remote()) == ("job", "job")
    assert get(Actor.remote().read.remote()) == ("job", "job")
    own = {"runtime_env": {"env_vars": {"CONTRACT_B": "task"}}}
    assert get(fresh.remote(read).options(**own).remote()) == ("job", "task")


def test_prints_of_workers_show_at_the_driver(fresh, start, get, capfd, eventually):
    start()

    @fresh.remote
    def speak():
        print("a word from a worker")

    get(speak.remote())
    seen = []

    def has_arrived():
        seen.extend(capfd.readouterr())
        return "a word from a worker" in "".join(seen)

    eventually(has_arrived)
    [line] = [line for line in "".join(seen).splitlines() if "a word from a worker" in line]
    assert "speak" in line
    assert "pid=" in line


def test_text_without_a_line_end_shows_while_its_worker_lives(fresh, start, get, capfd, eventually):
    start()

    @fresh.remote
    class Speaker:
        def speak(self):
            print("half a", end=" ")
            print("line", end="")

    speaker = Speaker.remote()
    get(speaker.speak.remote())
    seen = []

    def has_arrived():
        seen.extend(capfd.readouterr())
        return "half a line" in "".join(seen)

    eventually(has_arrived)


def test_prints_of_workers_can_be_kept_from_the_driver(fresh, start, get, capfd):
    @fresh.remote
    def speak():
        print("a word from a worker")

    start(log_to_driver=False)
    get([speak.remote() for _ in range(4)])
    fresh.shutdown()
    assert "a word from a worker" not in "".join(capfd.readouterr())


def test_a_program_may_end_without_shutdown(run_script):
    ended = run_script("print(ray.get(ray.remote(lambda: 'done').remote()))")
    assert ended.returncode == 0
    assert "done" in ended.stdout


def test_a_program_ends_while_tasks_run(run_script):
    body = (
        "import time\n"
        "@ray.remote\ndef hold():\n    time.sleep(60)\n"
        "refs = [hold.remote() for _ in range(4)]\n"
    )
    ended = run_script(body)
    assert ended.returncode == 0, ended.stderr


def test_an_unhandled_task_error_ends_a_program_with_one(run_script):
    ended = run_script("def fail():\n    raise KeyError('k')\nray.get(ray.remote(fail).remote())")
    assert ended.returncode == 1
    assert "KeyError" in ended.stderr


def test_a_script_defines_functions_and_classes_at_its_top(run_script):
    ended = run_script(
        "class Point:\n    def __init__(self, x):\n        self.x = x\n"
        "@ray.remote\ndef move(p):\n    return Point(p.x + 1)\n"
        "if __name__ == '__main__':\n    print('x =', ray.get(move.remote(Point(1))).x)\n"
    )
    assert ended.returncode == 0, ended.stderr
    assert "x = 2" in ended.stdout


FAILING = """
import os
ray.init(num_cpus=1, include_dashboard=False)
@ray.remote(max_retries=0)
def fail(word):
    raise KeyError(word)
@ray.remote
def ok(*args):
    return 1
class Maker:
    def fail(self, word):
        raise KeyError(word)
    def ok(self):
        return 1
"""
WAITING = "ray.get([ok.remote() for _ in range(3)])\n"
"""Waits until everything that was submitted before has ended, because there is only one CPU."""


@pytest.mark.parametrize(
    "use",
    [
        "fail.remote('nobody-reads')",
        "ref = fail.remote('nobody-reads'); ray.get(ok.remote()); del ref",
        "maker = ray.remote(num_cpus=0)(Maker).remote(); maker.fail.remote('nobody-reads'); "
        "ray.get(maker.ok.remote())",
        "fail.options(num_returns=2).remote('nobody-reads')",
    ],
    ids=["a task", "a task, later", "a call", "two results"],
)
def test_a_failure_that_nobody_reads_is_told_once(run_script, use):
    ended = run_script(f"{FAILING}{use}\n{WAITING}")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("Unhandled error") >= 1, ended.stderr
    assert "nobody-reads" in ended.stderr


@pytest.mark.phalanx_only("what Ray does here was not tried")
@pytest.mark.parametrize("read", [False, True])
def test_a_generator_that_fails_and_is_not_read_is_told(run_script, read):
    use = (
        "@ray.remote(max_retries=0)\n"
        "def items():\n"
        "    yield 1\n"
        "    raise KeyError('in-the-stream')\n"
        "stream = items.remote()\n"
        "ray.get(ok.remote())\n"
    )
    if read:
        use += "next(stream)\ntry: ray.get(next(stream))\nexcept KeyError: pass\n"
    ended = run_script(f"{FAILING}{use}del stream\n{WAITING}")
    assert ended.returncode == 0, ended.stderr
    assert ("in-the-stream" in ended.stderr) is not read


@pytest.mark.parametrize(
    "use",
    [
        "try: ray.get(fail.remote('seen'))\nexcept KeyError: pass",
        # an actor runs its calls in order: both have failed when the third has its result
        "class Fails:\n    def fail(self): raise KeyError('seen')\n    def ok(self): pass\n"
        "actor = ray.remote(Fails).remote()\n"
        "refs = [actor.fail.remote() for _ in range(2)]; ray.get(actor.ok.remote())\n"
        "try: ray.get(refs)\nexcept KeyError: pass\ndel refs",
        "ray.wait([fail.remote('seen')])",
        "ref = fail.remote('seen'); ray.wait([ref])\ntry: ray.get(ok.remote(ref))\n"
        "except KeyError: pass\ndel ref",
        "fail.remote('seen').future().exception()",
        "os.environ['RAY_IGNORE_UNHANDLED_ERRORS'] = '1'; fail.remote('seen')",
    ],
    ids=["get", "get of two", "wait", "an argument", "a future", "suppressed"],
)
def test_a_failure_that_was_seen_is_not_told(run_script, use):
    ended = run_script(f"{FAILING}{use}\n{WAITING}")
    assert ended.returncode == 0, ended.stderr
    assert "Unhandled error" not in ended.stderr


def test_a_constructor_that_raises_is_told_though_nobody_calls(run_script):
    ended = run_script(
        f"{FAILING}\n"
        "from pathlib import Path\n"
        "class Broken:\n"
        "    def __init__(self):\n"
        "        raise KeyError('not-made')\n"
        "actor = ray.remote(Broken).remote()\n"
        "try: ray.get(actor.__ray_ready__.remote())\n"
        "except ray.exceptions.RayActorError: pass\n"
    )
    assert ended.returncode == 0, ended.stderr
    assert "not-made" in ended.stderr


@pytest.mark.parametrize("kind", ["task", "call"])
def test_an_attempt_that_will_be_retried_is_told(run_script, tmp_path, kind):
    mark = tmp_path / "tried"
    ended = run_script(
        f"{FAILING}\n"
        "from pathlib import Path\n"
        f"mark = Path({str(mark)!r})\n"
        "def fragile():\n"
        "    if not mark.exists():\n"
        "        mark.touch()\n"
        "        raise KeyError('first-attempt')\n"
        "    return 'second'\n"
        "class Fragile:\n"
        "    def call(self):\n"
        "        return fragile()\n"
        f"if {kind!r} == 'task':\n"
        "    run = ray.remote(max_retries=1, retry_exceptions=True)(fragile)\n"
        "else:\n"
        "    actor = ray.remote(max_task_retries=1)(Fragile).remote()\n"
        "    run = actor.call.options(retry_exceptions=True)\n"
        "print(ray.get(run.remote()))\n"
    )
    assert ended.returncode == 0, ended.stderr
    assert "second" in ended.stdout
    assert "first-attempt" in ended.stderr


TERMINATED = """
import atexit, signal, sys
from pathlib import Path
ended = Path(sys.argv[1])
atexit.register(ended.touch)
{before}
ray.init(num_cpus=1, include_dashboard=False)
@ray.remote
def hold():
    import time
    time.sleep(60)
ref = hold.remote()
try:
    print("begun", flush=True)
    ray.get(ref)
finally:
    print("finally", flush=True)
"""


def ended_by_sigterm(fresh, tmp_path, before=""):
    """Return (exit code, what was printed, whether atexit ran) of a driver that got SIGTERM in
    `get`.
    """
    program, ended = tmp_path / "program.py", tmp_path / "ended"
    program.write_text(f"import {fresh.__name__} as ray\n{TERMINATED.format(before=before)}")
    command = [sys.executable, str(program), str(ended)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        assert any("begun" in line for line in driver.stdout)
        driver.terminate()
        printed = driver.stdout.read()
        return driver.wait(60), printed, ended.exists()


def test_sigterm_ends_a_driver_as_an_exit_does(fresh, tmp_path):
    code, printed, ran = ended_by_sigterm(fresh, tmp_path)
    assert code != 0
    assert "finally" in printed
    assert ran


def test_a_programs_own_handler_of_sigterm_stays(fresh, tmp_path):
    own = "signal.signal(signal.SIGTERM, lambda *about: sys.exit(7))"
    assert ended_by_sigterm(fresh, tmp_path, own)[0] == 7


@pytest.mark.phalanx_only("Ray's handler is in children, too")
def test_a_child_of_a_driver_ends_by_the_signal(fresh, tmp_path):
    fresh.init(num_cpus=1, include_dashboard=False)
    forks = multiprocessing.get_context("fork")
    runs = forks.Event()

    def live():
        runs.set()
        signal.pause()

    child = forks.Process(target=live)
    child.start()
    assert runs.wait(60)
    child.terminate()
    child.join(60)
    assert child.exitcode == -signal.SIGTERM


@pytest.mark.phalanx_only("Ray copies directories to nodes")
@pytest.mark.parametrize("field", ["working_dir", "py_modules"])
def test_a_worker_that_finds_no_directory_says_so(run_script, tmp_path, field):
    gone = tmp_path / "gone"
    gone.mkdir()
    ended = run_script(
        f"import os\n"
        f"gone = {str(gone)!r}\n"
        "ray.init(num_cpus=1, include_dashboard=False)\n"
        f"given = {{{field!r}: gone if {field == 'working_dir'} else [gone]}}\n"
        "where = ray.remote(max_calls=1, runtime_env=given)(lambda: os.getcwd())\n"
        "first = ray.get(where.remote())\n"
        f"assert (first == gone) is {field == 'working_dir'}, first\n"
        "os.rmdir(gone)\n"
        "assert ray.get(where.remote()) == os.getcwd()\n"
    )
    assert ended.returncode == 0, ended.stderr
    assert f"{gone}" in ended.stderr
    assert "on this node" in ended.stderr
