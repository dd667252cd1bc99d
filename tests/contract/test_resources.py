"""Resources: what is counted, what waits, and which devices a task is given."""

from __future__ import annotations

import os
import threading

import pytest


@pytest.fixture
def free(ray, eventually):
    """Return a function that waits until this amount of a resource is available."""

    def wait_until(name, quantity):
        eventually(lambda: ray.available_resources().get(name, 0) == quantity)

    return wait_until


@pytest.fixture
def hold(ray, gate):
    @ray.remote
    def hold():
        gate.enter()
        return "held"

    return hold


def test_cluster_resources_are_what_init_gave(ray):
    total = ray.cluster_resources()
    assert total["CPU"] == 4
    assert total["GPU"] == 2
    assert total["custom"] == 2


def test_cluster_resources_hold_memory_and_the_node(ray):
    total = ray.cluster_resources()
    assert total["memory"] > 0
    assert total["object_store_memory"] > 0
    assert total["node:__internal_head__"] == 1
    assert any(name.startswith("node:") and "internal" not in name for name in total)


def test_available_resources_are_all_when_nothing_runs(ray, free):
    for name, quantity in {"CPU": 4, "GPU": 2, "custom": 2}.items():
        free(name, quantity)


def test_available_resources_shrink_while_a_task_runs(ray, get, hold, gate, eventually, free):
    ref = hold.options(num_cpus=1.5, resources={"custom": 0.5}).remote()
    eventually(lambda: gate.entered() == 1)
    free("CPU", 2.5)
    free("custom", 1.5)
    gate.open()
    assert get(ref) == "held"
    free("CPU", 4)
    free("custom", 2)


def test_a_resource_that_is_used_up_is_absent(ray, get, hold, gate, eventually):
    ref = hold.options(num_cpus=4).remote()
    eventually(lambda: gate.entered() == 1)
    eventually(lambda: "CPU" not in ray.available_resources())
    gate.open()
    assert get(ref) == "held"


def test_tasks_wait_for_cpus(ray, get, hold, gate, eventually):
    refs = [hold.options(num_cpus=2).remote() for _ in range(3)]
    eventually(lambda: gate.entered() == 2)
    assert ray.wait(refs, timeout=0.1)[0] == []
    assert gate.entered() == 2
    gate.open()
    assert get(refs) == ["held"] * 3


def test_tasks_wait_for_a_custom_resource(ray, get, hold, gate, eventually):
    refs = [hold.options(num_cpus=0, resources={"custom": 1}).remote() for _ in range(3)]
    eventually(lambda: gate.entered() == 2)
    assert ray.wait(refs, timeout=0.1)[0] == []
    assert gate.entered() == 2
    gate.open()
    assert get(refs) == ["held"] * 3


def test_fractions_of_a_cpu_share_it(ray, get, hold, gate, eventually):
    refs = [hold.options(num_cpus=0.5).remote() for _ in range(8)]
    eventually(lambda: gate.entered() == 8)
    gate.open()
    assert get(refs) == ["held"] * 8


def test_zero_cpu_tasks_run_beside_a_full_machine(ray, get, hold, gate, eventually):
    full = hold.options(num_cpus=4).remote()
    eventually(lambda: gate.entered() == 1)
    assert get(ray.remote(lambda: "ran").options(num_cpus=0).remote()) == "ran"
    gate.open()
    assert get(full) == "held"


def test_an_infeasible_task_does_not_run(ray, errors, tally):
    @ray.remote(num_cpus=100)
    def never():
        tally.add()

    ref = never.remote()
    with pytest.raises(errors.RayError):
        ray.get(ref, timeout=0.5)
    ray.cancel(ref)
    assert tally.count() == 0


def test_an_unknown_resource_is_infeasible(ray, errors, tally):
    @ray.remote(resources={"unheard_of": 1})
    def never():
        tally.add()

    ref = never.remote()
    with pytest.raises(errors.RayError):
        ray.get(ref, timeout=0.5)
    ray.cancel(ref)
    assert tally.count() == 0


def test_an_infeasible_task_does_not_hold_up_others(ray, get):
    stuck = ray.remote(lambda: None).options(num_cpus=100).remote()
    assert get([ray.remote(lambda x: x).remote(i) for i in range(8)]) == list(range(8))
    ray.cancel(stuck)


def test_actors_hold_no_cpu_by_default(ray, get, free):
    @ray.remote
    class Plain:
        def ping(self):
            return "pong"

    actors = [Plain.remote() for _ in range(6)]
    assert get([actor.ping.remote() for actor in actors]) == ["pong"] * 6
    free("CPU", 4)


def test_actors_hold_what_they_ask_for_until_they_end(ray, get, free):
    @ray.remote(num_cpus=2, resources={"custom": 1})
    class Plain:
        def ping(self):
            return "pong"

    actor = Plain.remote()
    get(actor.ping.remote())
    free("CPU", 2)
    free("custom", 1)
    ray.kill(actor)
    free("CPU", 4)
    free("custom", 2)


def test_an_actor_gives_its_gpu_back_with_its_last_handle(ray, get, free):
    @ray.remote(num_gpus=1)
    class Plain:
        def resources(self):
            return ray.get_runtime_context().get_assigned_resources()

    actor = Plain.remote()
    assert get(actor.resources.remote())["GPU"] == 1
    free("GPU", 1)
    del actor
    free("GPU", 2)


def test_an_actor_waits_for_its_resources(ray, get, gate, hold, eventually):
    @ray.remote(num_cpus=4)
    class Plain:
        def ping(self):
            return "pong"

    blocker = hold.remote()
    eventually(lambda: gate.entered() == 1)
    actor = Plain.remote()
    ref = actor.ping.remote()
    assert ray.wait([ref], timeout=0.1)[0] == []
    gate.open()
    assert get(blocker) == "held"
    assert get(ref) == "pong"


@pytest.fixture
def devices(ray):
    @ray.remote
    def devices():
        return ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")

    return devices


def test_a_gpu_task_sees_its_device(get, devices):
    ids, visible = get(devices.options(num_gpus=1).remote())
    assert len(ids) == 1
    assert visible == str(ids[0])
    assert int(ids[0]) in (0, 1)


def test_a_task_with_two_gpus_sees_both(get, devices):
    ids, visible = get(devices.options(num_gpus=2).remote())
    assert sorted(map(int, ids)) == [0, 1]
    assert sorted(visible.split(",")) == ["0", "1"]


def test_a_task_without_gpus_has_no_ids(get, devices):
    assert get(devices.remote())[0] == []


def test_a_task_without_gpus_leaves_the_variable_untouched(get, devices):
    assert get(devices.remote())[1] == os.environ.get("CUDA_VISIBLE_DEVICES")


def test_a_thread_of_an_actor_sees_what_the_actor_has(ray, get):
    @ray.remote(num_gpus=1)
    class Trainer:
        def seen(self):
            found = []

            def look():
                context = ray.get_runtime_context()
                found.append((ray.get_gpu_ids(), context.get_assigned_resources()["GPU"]))

            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
            return found[0], ray.get_gpu_ids()

    (ids, amount), own = get(Trainer.remote().seen.remote())
    assert (ids, amount) == (own, 1.0)
    assert len(own) == 1


def test_the_driver_has_no_gpu_ids(ray):
    assert ray.get_gpu_ids() == []


def test_tasks_at_the_same_time_get_different_devices(ray, get, gate, eventually):
    @ray.remote(num_gpus=1)
    def hold():
        gate.enter()
        return int(ray.get_gpu_ids()[0])

    refs = [hold.remote(), hold.remote()]
    eventually(lambda: gate.entered() == 2)
    gate.open()
    assert sorted(get(refs)) == [0, 1]


def test_a_third_task_waits_for_a_device(ray, get, gate, eventually):
    @ray.remote(num_gpus=1)
    def hold():
        gate.enter()

    refs = [hold.remote() for _ in range(3)]
    eventually(lambda: gate.entered() == 2)
    assert ray.wait(refs, timeout=0.1)[0] == []
    gate.open()
    get(refs)
    assert gate.entered() == 3


def test_fractions_share_one_device(ray, get, gate, eventually):
    @ray.remote(num_gpus=0.5)
    def hold():
        gate.enter()
        return int(ray.get_gpu_ids()[0])

    refs = [hold.remote() for _ in range(4)]
    eventually(lambda: gate.entered() == 4)
    gate.open()
    assert sorted(get(refs)) == [0, 0, 1, 1]


def test_a_fraction_is_one_device_only(get, devices):
    ids, visible = get(devices.options(num_gpus=0.3).remote())
    assert len(ids) == 1
    assert visible == str(ids[0])


def test_shares_that_fit_one_device_are_put_on_one(ray, get, gate, eventually, free):
    free("GPU", 2)

    @ray.remote(num_gpus=0.3)
    def hold():
        gate.enter()
        return int(ray.get_gpu_ids()[0])

    refs = [hold.remote() for _ in range(3)]
    eventually(lambda: gate.entered() == 3)
    gate.open()
    assert len(set(get(refs))) == 1


def test_an_actor_keeps_its_device(ray, get):
    @ray.remote(num_gpus=1)
    class Owner:
        def device(self):
            return ray.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"]

    one, two = Owner.remote(), Owner.remote()
    first, second = get([one.device.remote(), two.device.remote()])
    assert first[0] != second[0]
    assert get(one.device.remote()) == first


def test_accelerator_ids_are_text(ray, get):
    @ray.remote(num_gpus=1)
    def ids():
        return ray.get_runtime_context().get_accelerator_ids()["GPU"]

    assert get(ids.remote()) in (["0"], ["1"])


def test_assigned_resources_of_a_task(ray, get):
    @ray.remote(num_cpus=2, num_gpus=0.5, resources={"custom": 0.25})
    def assigned():
        return ray.get_runtime_context().get_assigned_resources()

    assert get(assigned.remote()) == {"CPU": 2, "GPU": 0.5, "custom": 0.25}


def test_memory_is_admitted_by_request(ray, get, errors):
    total = int(ray.cluster_resources()["memory"])
    task = ray.remote(lambda: "ran")
    assert get(task.options(memory=total // 2).remote()) == "ran"
    ref = task.options(memory=2 * total).remote()
    with pytest.raises(errors.RayError):
        ray.get(ref, timeout=0.5)
    ray.cancel(ref)


def test_omp_threads_follow_the_cpus(ray, get):
    @ray.remote
    def threads():
        return os.environ.get("OMP_NUM_THREADS")

    if "OMP_NUM_THREADS" in os.environ:
        pytest.skip("the person running this chose a number of threads")
    assert get(threads.options(num_cpus=3).remote()) == "3"
    assert get(threads.options(num_cpus=0.5).remote()) == "1"


def blas_threads():
    """Return the number of threads that numpy's OpenBLAS uses in this process."""
    import ctypes

    import numpy  # noqa: F401

    with open("/proc/self/maps") as maps:
        path = next(line.split()[-1] for line in maps if "openblas" in line)
    library = ctypes.CDLL(path)
    # Names of its builds; the first is that of numpy's wheels.
    for name in ("scipy_openblas_get_num_threads64_", "openblas_get_num_threads"):
        if hasattr(library, name):
            return getattr(library, name)()
    raise AssertionError(f"{path} does not say how many threads it uses")


@pytest.mark.with_a_node("workers cannot import the modules of a client")
def test_blas_has_as_many_threads_as_its_task_has_cpus(ray, get):
    if any(name in os.environ for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")):
        pytest.skip("the person running this chose a number of threads")
    task = ray.remote(max_calls=1)(blas_threads)
    for cpus in (2, 1):
        assert get(task.options(num_cpus=cpus).remote()) == cpus
    chosen = {"env_vars": {"OMP_NUM_THREADS": "2"}}
    assert get(task.options(num_cpus=1, runtime_env=chosen).remote()) == 2

    class Actor:
        def threads(self):
            return blas_threads()

    assert get(ray.remote(num_cpus=2)(Actor).remote().threads.remote()) == 2


def test_nodes_describe_this_machine(ray, home):
    assert ray.get_runtime_context().get_node_id() in {node["NodeID"] for node in ray.nodes()}
    [node] = (node for node in ray.nodes() if node["NodeID"] == home)
    assert node["Alive"] is True
    assert node["Resources"]["CPU"] == 4
    assert isinstance(node["Labels"], dict)
    assert node["NodeManagerAddress"]


def test_cpus_are_given_back_after_failures(ray, get, free):
    @ray.remote(num_cpus=2, resources={"custom": 1}, max_retries=0)
    def fail(how):
        if how == "raise":
            raise ValueError
        os._exit(1)

    for how in ("raise", "crash"):
        with pytest.raises(Exception, match=r".*"):
            get(fail.remote(how))
    free("CPU", 4)
    free("custom", 2)


def test_actors_that_ask_for_memory_alone_hold_no_cpu(ray, get, counter):
    small = counter.options(memory=2**20)
    actors = [small.remote() for _ in range(6)]  # of 4 CPUs
    assert get([actor.add.remote() for actor in actors]) == [1] * 6
