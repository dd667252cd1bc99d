"""Runs each behaviour on every installed engine, most of them on one shared runtime.

`pytest tests/contract --engine ray` runs the same list on Ray alone, as the reference, and
`--engine cluster` on Phalanx where everything runs on another node than the driver's, and
`--engine client` on Phalanx from a program without a node, and
`--engine phalanx-on-ray` on Phalanx over a Ray cluster: a head and three raylets.
"""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
import time
from functools import partial
from pathlib import Path

import pytest
from tests import polling

HERE = Path(__file__).parent
ENGINES = ("phalanx", "ray")
CLUSTER, CLIENT, ON_RAY = "cluster", "client", "phalanx-on-ray"
SHARED = {"num_cpus": 4, "num_gpus": 2, "resources": {"custom": 2}, "include_dashboard": False}
TIMEOUT_S = 120
"""Seconds after which a hanging test fails. Ray starts a worker within seconds, even if busy."""


def pytest_addoption(parser):
    parser.addoption(
        "--engine",
        choices=(*ENGINES, CLUSTER, CLIENT, ON_RAY),
        help="run the contract on this engine only",
    )


def pytest_configure(config):
    mark = "phalanx_only(reason): differs from Ray on purpose"
    config.addinivalue_line("markers", mark)
    mark = "with_a_node(reason): cannot hold for a client, whose driver is elsewhere"
    config.addinivalue_line("markers", mark)
    mark = "one_raylet(reason): Ray itself does otherwise on a cluster of several"
    config.addinivalue_line("markers", mark)


def pytest_generate_tests(metafunc):
    if "engine" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--engine", default=None)
        installed = [name for name in ENGINES if importlib.util.find_spec(name)]
        metafunc.parametrize("engine", [chosen] if chosen else installed, scope="session")


def pytest_collection_modifyitems(items):
    """Sort the tests by engine; for each engine, those that start a runtime of their own come last.
    Mark tests to be skipped on engines for which they are not made.
    """
    ours = [item for item in items if HERE in item.path.parents]
    if not ours:
        return

    def turn(item):
        engine = item.callspec.params.get("engine") if hasattr(item, "callspec") else None
        return (ENGINES.index(engine) if engine in ENGINES else -1, "fresh" in item.fixturenames)

    first = items.index(ours[0])
    others = [item for item in items if HERE not in item.path.parents]
    items[:] = [*others[:first], *sorted(ours, key=turn), *others[first:]]
    for item in ours:
        engine = item.callspec.params.get("engine") if hasattr(item, "callspec") else None
        if engine in (CLUSTER, CLIENT) and "fresh" in item.fixturenames:
            item.add_marker(pytest.mark.skip(reason="it starts a runtime of its own"))
        if engine == CLIENT and (mark := item.get_closest_marker("with_a_node")):
            item.add_marker(pytest.mark.skip(reason=mark.args[0]))
        is_on_ray = hasattr(item, "callspec") and item.callspec.params.get("engine") == ON_RAY
        if turn(item)[0] == ENGINES.index("ray") or is_on_ray:
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            if mark := item.get_closest_marker("phalanx_only"):
                item.add_marker(pytest.mark.skip(reason=mark.args[0]))
        if is_on_ray and (mark := item.get_closest_marker("one_raylet")):
            item.add_marker(pytest.mark.skip(reason=mark.args[0]))


@pytest.fixture(scope="package")
def module(engine):
    """Yield the module under test. It is shut down before tests outside the contract run."""
    under_test = importlib.import_module(
        "phalanx" if engine in (CLUSTER, CLIENT, ON_RAY) else engine
    )
    with pytest.MonkeyPatch.context() as patch:
        if engine == ON_RAY:
            patch.setenv("PHALANX_ENGINE", "ray")
        yield under_test
        under_test.shutdown()


@pytest.fixture(scope="package")
def start(engine, module):
    """Starts the shared runtime."""
    if engine == ON_RAY:
        yield from _start_on_ray(module)
        return
    if engine not in (CLUSTER, CLIENT):
        yield lambda: module.init(**SHARED)
        return
    from phalanx.cluster_utils import Cluster

    cluster = Cluster(head_node_args={"num_cpus": 0}, initialize_head=True)
    cluster.add_node(num_cpus=4, num_gpus=2, resources={"custom": 2})
    if engine == CLUSTER:
        yield cluster.connect
    else:
        yield from _start_client(module, cluster.address)
    cluster.shutdown()


def _start_client(module, address):
    """Yield a function that connects as a client of the cluster. The client knows only a token."""
    from phalanx.protocol.requests.tokens import CreateToken
    from phalanx.runtime.daemons import personal_token
    from phalanx.runtime.daemons.finding import ask_cluster

    token = personal_token.new_token()
    ask_cluster(address, CreateToken("client", token.id, token.secret_hash), TIMEOUT_S)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", folder)
        patch.setenv("PHALANX_TOKEN_FILE", f"{folder}/token")
        personal_token.write(f"{folder}/token", token)
        yield lambda: module.init(f"phalanx://{address}")
        module.shutdown()


def _start_on_ray(module):
    """Yield a function that connects to a Ray cluster. One of its three raylets has all the CPUs,
    so that the tests see one node.
    """
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "memory": 2**26})
    cluster.add_node(num_cpus=4, num_gpus=2, resources={"custom": 2}, memory=4 * 2**30)
    for _ in range(2):
        cluster.add_node(num_cpus=0, memory=2**26)
    yield lambda: module.init(f"ray:{cluster.address}")
    module.shutdown()
    cluster.shutdown()


@pytest.fixture
def ray(module, start):
    """The module under test with the shared runtime: 4 CPUs, 2 GPUs, 2 of "custom"."""
    if not module.is_initialized():
        start()
    return module


@pytest.fixture
def home(ray):
    """The id of the one node that has CPUs."""
    (node,) = (row for row in ray.nodes() if row["Resources"].get("CPU"))
    return node["NodeID"]


@pytest.fixture
def fresh(module):
    """The module under test without any runtime."""
    module.shutdown()
    yield module
    module.shutdown()


@pytest.fixture
def part(module):
    """Return a function that imports a submodule of the module under test: `part("util.queue")`."""
    return lambda name: importlib.import_module(f"{module.__name__}.{name}")


@pytest.fixture
def errors(part):
    return part("exceptions")


@pytest.fixture
def get(module):
    """`get` that fails instead of hanging."""
    return lambda refs: module.get(refs, timeout=TIMEOUT_S)


@pytest.fixture
def counter(ray):
    """A small actor class with state."""

    @ray.remote
    class Counter:
        def __init__(self, start=0):
            self.value = start

        def add(self, by=1):
            self.value += by
            return self.value

        def read(self):
            return self.value

        def fail(self):
            raise ValueError("method failed")

    return Counter


@pytest.fixture
def eventually():
    """Return a function that waits until a condition holds, and fails if the condition never
    does.
    """
    return partial(polling.eventually, within_s=TIMEOUT_S)


@pytest.fixture
def is_over(engine, get, eventually):
    """Return a check that an actor no longer answers. On our engine even the first call must fail.

    Ray ends an actor a moment after the request, so a call may still succeed before that.
    """

    def check(method, error):
        def fails():
            try:
                get(method.remote())
            except error:
                return True
            return False

        if engine in (ON_RAY, "ray"):
            eventually(fails)
        assert fails()

    return check


@pytest.fixture
def ends(eventually):
    """Return a function that waits until a process has ended."""

    def check(pid):
        def is_gone():
            try:
                with open(f"/proc/{pid}/stat") as stat:
                    return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
            except (FileNotFoundError, ProcessLookupError):  # the latter between open and read
                return True

        eventually(is_gone)

    return check


@pytest.fixture
def tally(tmp_path):
    """Return a counter that works across processes: `add` leaves a mark, `count` returns the number
    of marks.
    """

    class Tally:  # local, so that it travels to workers by value
        def __init__(self, folder):
            self.folder = folder

        def add(self, name="mark"):
            import uuid

            (self.folder / f"{name}-{uuid.uuid4().hex}").touch()

        def count(self, name="mark"):
            return sum(1 for _ in self.folder.glob(f"{name}-*"))

    folder = tmp_path / "tally"
    folder.mkdir()
    return Tally(folder)


@pytest.fixture
def gate(tmp_path, tally, eventually):
    """Return a gate: tasks that `enter` wait there until the test opens it."""

    class Gate:  # local, so that it travels to workers by value
        def __init__(self, door, tally):
            self.door = door
            self.tally = tally

        def enter(self):

            self.tally.add("entered")
            deadline = time.monotonic() + 120
            while not self.door.exists():
                if time.monotonic() > deadline:
                    raise TimeoutError("nobody opened the gate")
                time.sleep(0.01)

        def open(self):
            self.door.touch()

        def entered(self):
            return self.tally.count("entered")

    door = Gate(tmp_path / "door", tally)
    yield door
    door.open()
