"""`init` and `shutdown`, and this process's engine, which starts on demand."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any, TextIO
from urllib.parse import urlsplit

from phalanx.api import auto_init
from phalanx.api.addresses import engine_and_address
from phalanx.api.amounts import check_amounts
from phalanx.api.job_config import JOB_CONFIG, JobConfig, set_default_lifetime
from phalanx.api.logging_config import LoggingConfig
from phalanx.errors import SystemFailureError
from phalanx.model.environments import TOOLS, given_tool
from phalanx.model.nearest import nearest
from phalanx.model.options import check_task_options
from phalanx.model.readable import amount, size
from phalanx.model.rows.row import cells_html, text_html
from phalanx.protocol.node_messages import LogLine
from phalanx.protocol.requests.queues import AdmitQueue
from phalanx.runtime.engine import dialect
from phalanx.runtime.engine import starting as engines
from phalanx.runtime.engine import tracing as spans
from phalanx.runtime.engine.interface import Engine, EngineOptions, current, set_current
from phalanx.runtime.engine.tracing_setup import Setup, begin_tracing, wanted
from phalanx.scheduler.placement.placement_policy import read_placement_policy

_INHERITED_BY_DRIVERS = ("config", "conda", "env_vars", "pip", "py_modules", "uv", "working_dir")
_lock = threading.RLock()
after_init: list[Callable[[], object]] = []
"""Functions that are called, in this order, each time this process's runtime has started."""
ADMITTED_FOR_S = 1.0
"""Seconds for which `check_queue` relies on an earlier answer that a queue takes work."""
_admitted: dict[str, float] = {}
"""The time at which each queue was last known to take work, in seconds of the monotonic clock."""


class RuntimeHandle(Mapping[str, Any]):
    """The result of `init`: facts about the runtime, and a context manager that shuts it down.

    Example:
        with phalanx.init() as runtime:
            print(runtime["address"])
    """

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts
        self.address_info = facts

    def __getitem__(self, key: str) -> Any:
        return self._facts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    @property
    def dashboard_url(self) -> str:
        """The web page's HOST:PORT; "" without `include_dashboard`."""
        return str(self._facts.get("webui_url", ""))

    @property
    def python_version(self) -> str:
        """The version of this Python."""
        return sys.version.split()[0]

    def disconnect(self) -> None:
        """Shut the runtime down."""
        shutdown()

    def _repr_html_(self) -> str:
        """Return a table of the cluster's resources, with the free amount of each."""
        engine = attached_engine()
        if engine is None or not engine.is_alive:
            return text_html("Phalanx, shut down")
        free = engine.available_resources()
        cells = [
            [name, shown(free.get(name, 0.0)), shown(total)]
            for name, total in sorted(engine.cluster_resources().items())
            for shown in [size if "memory" in name else amount]
            if not name.startswith("node:")
        ]
        where = str(self._facts.get("address") or "this process's own, on this machine")
        page = f"\nweb page: {self.dashboard_url}" if self.dashboard_url else ""
        return text_html(f"Phalanx {where}, queue {engine.queue or 'default'}{page}") + cells_html(
            ("resource", "free", "in all"), cells
        )

    def __enter__(self) -> RuntimeHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        shutdown()


def init(
    address: str | None = None,
    *,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: dict[str, float] | None = None,
    labels: dict[str, str] | None = None,
    object_store_memory: int | None = None,
    local_mode: bool = False,
    ignore_reinit_error: bool = False,
    include_dashboard: bool | None = None,
    job_config: JobConfig | None = None,
    log_to_driver: bool = True,
    namespace: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    topology: str | None = None,
    placement: str | dict[str, Any] | None = None,
    queue: str | None = None,
    priority: int = 0,
    tracing: bool | Setup = None,
    **options: Any,
) -> RuntimeHandle:
    """Connect to a cluster that runs on this machine, or start Phalanx here.

    `address`: HOST:PORT of a cluster's head connects to the node of that cluster on this machine;
    "phalanx://HOST:PORT" starts a driver on a cluster elsewhere and works through it
    (docs/howto/remote.md); `pid:PID` connects to the runtime that the program with this process id
    started for itself; "auto" connects to a running cluster and raises ConnectionError when there
    is none; "local" always starts a runtime. With None, the cluster is the one in PHALANX_ADDRESS,
    else the cluster of the current login (`phalanx login`), else the cluster that was started here
    last. If no such cluster is known, a runtime is started, which ends with this process.

    `num_cpus`, `num_gpus`, `resources` and `labels` are the amounts and labels of the new runtime;
    by default, the amounts of the machine. `object_store_memory` is in bytes (default: 30 % of free
    memory, and at most what shared memory holds). `topology` is the wiring of the GPUs, by which
    several GPUs of one task are chosen near each other: the name of a machine model such as
    "dgx_h100", or the text of `nvidia-smi topo -m`. By default, the wiring of real GPUs is read
    from their driver. `placement` is the policy by which the new runtime chooses nodes: a name, or
    `{"policy": "selector", "same_rack": "prefer"}` (see docs/explanation/placement.md).
    `_system_config` has settings of the new runtime, by Ray's names (docs/howto/ray.md).

    `include_dashboard` serves the cluster's web page (docs/howto/dashboard.md) and prints an
    address that logs you in. `queue` and `priority` apply to all work of this driver that names no
    others. Drivers of different queues share the nodes by the weights of their queues. A new
    runtime creates the queue if it does not exist. `job_config` gives a namespace and a runtime
    environment if no argument gives them. `tracing` records tasks and calls as spans of
    OpenTelemetry: True sets OpenTelemetry up from OpenTelemetry's own variables, a function (or
    MODULE:FUNCTION) sets it up itself, and None follows PHALANX_TRACING (docs/howto/tracing.md).

    Raises ConnectionError when there is no such cluster; RuntimeError when Phalanx runs in this
    process already, unless `ignore_reinit_error`; QueueUnavailableError when the queue takes no
    work; ValueError when amounts are given and a running cluster is found; ValueError or TypeError
    for an argument that is not allowed, also for a directory that is too large to be uploaded.

    Example:
        phalanx.init(num_cpus=4, num_gpus=0)  # a runtime of this program's own
        phalanx.init("head.example:6380", queue="research")  # a node of a cluster, on this machine
    """
    with _lock:
        engine = current()
        if engine is not None and engine.is_alive:
            if ignore_reinit_error:
                return RuntimeHandle(engine.facts())
            raise RuntimeError(
                "Phalanx is already running in this process. Call phalanx.shutdown() first, or "
                "pass ignore_reinit_error=True."
            )
        if engine is not None:
            shutdown()
        _check_options(options)
        if job_config is not None:
            namespace = namespace or job_config.ray_namespace
            runtime_env = runtime_env or job_config.runtime_env
        if local_mode:
            raise RuntimeError(
                "local_mode is not supported: use num_cpus=1 to run one task at a time."
            )
        spoken = dialect.current()
        if spoken is not None:
            address = spoken.without_client(address)
        engine_name, where = engine_and_address(address)
        check_amounts(num_cpus, num_gpus, resources, labels, object_store_memory)
        _check_namespace(namespace)
        if engine_name == engines.EMBEDDED:
            runtime_env = _merged_with_jobs(runtime_env)
        check_task_options({"runtime_env": runtime_env, "queue": queue, "priority": priority})
        hook: Callable[[], None] | None = None
        preload: tuple[str, ...] = ()
        if engine_name == engines.EMBEDDED:  # each engine has its own options for the hook
            lifetime = getattr(job_config, "default_actor_lifetime", "non_detached")
            asked = options.get("_tracing_startup_hook") or tracing
            hook = _worker_hook(runtime_env, options.get("logging_config"), lifetime, asked)
            preload = () if spoken is None else spoken.preloaded()
        started = _start(
            EngineOptions(
                engine=engine_name,
                address=where,
                num_cpus=num_cpus,
                num_gpus=num_gpus,
                resources=resources,
                labels=labels,
                object_store_memory=object_store_memory,
                topology=topology or "",
                placement=None if placement is None else read_placement_policy(placement),
                include_dashboard=include_dashboard,
                namespace=namespace,
                runtime_env=runtime_env,
                log_to_driver=log_to_driver,
                queue=queue or "",
                priority=priority,
                hook=hook,
                preload=preload,
                more=options,
            ),
            _Output(),
        )
        _set_environment(started, runtime_env)
        set_current(started)
        if started.queue:
            try:
                started.ask(AdmitQueue(started.queue, makes=started.owns_cluster))
            except BaseException:
                shutdown()
                raise
        for step in list(after_init):
            step()
        facts = started.facts()
        if include_dashboard and engine_name == engines.EMBEDDED:
            facts["webui_url"] = _serve_page(facts["address"])
        return RuntimeHandle(facts)


def _start(options: EngineOptions, output: _Output) -> Engine:
    address = options.address
    if address in (None, "", "auto"):
        address = os.environ.get("PHALANX_ADDRESS") or ""
    if options.engine != engines.EMBEDDED or not str(address).startswith("phalanx://"):
        return engines.start(options, output)
    from phalanx.api.clients import connect  # most programs have a node on their machine

    return connect(str(address), options, output)


def _set_environment(engine: Engine, runtime_env: dict[str, Any] | None) -> None:
    """Set the runtime environment of a started engine, which is stopped if that fails."""
    try:
        engine.default_env = dict(runtime_env or {})
    except BaseException:
        engine.stop()
        raise


def _serve_page(address: str) -> str:
    """Start the web page of this cluster, and print an address that logs the user in. Returns the
    page's HOST:PORT.

    Warns and returns "" when the page cannot be served. The page ends with the cluster.
    """
    command = [sys.executable, "-m", "phalanx", "dashboard", "--address", address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        warnings.warn(f"There is no web page: {done.stderr.strip()}", stacklevel=3)
        return ""
    print(done.stdout, end="", file=sys.stderr)
    return urlsplit(done.stdout.split("\n")[1]).netloc


def _merged_with_jobs(runtime_env: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the driver's runtime environment, merged with the environment of the submitted job to
    which the driver belongs.

    The driver's own values take precedence.
    """
    of_job = json.loads(os.environ.get(JOB_CONFIG) or "{}").get("runtime_env") or {}
    if not of_job:
        return runtime_env
    beneath = {name: of_job[name] for name in _INHERITED_BY_DRIVERS if of_job.get(name)}
    given = dict(runtime_env or {})
    if given_tool(given):
        beneath = {name: one for name, one in beneath.items() if name not in TOOLS}
    variables = {**beneath.pop("env_vars", {}), **(given.get("env_vars") or {})}
    return {**beneath, **given, **({"env_vars": variables} if variables else {})}


def _worker_hook(
    runtime_env: dict[str, Any] | None,
    logging_config: LoggingConfig | None,
    lifetime: str,
    tracing: bool | Setup,
) -> Callable[[], None] | None:
    """Apply these settings to this process. Returns the function that applies them in each worker
    of this job at its start, or None if there is nothing to apply.
    """
    steps: list[Callable[[], object]] = []
    set_default_lifetime(lifetime)
    if lifetime == "detached":
        steps.append(partial(set_default_lifetime, lifetime))
    if logging_config is not None:
        logging_config.apply()
        steps.append(logging_config.apply)
    if (spoken := dialect.current()) is not None:
        steps.append(spoken.installation())
    is_traced, set_up = wanted(tracing)
    if is_traced:
        steps.append(begin_tracing(set_up))
    if (setup := (runtime_env or {}).get("worker_process_setup_hook")) is not None:
        steps.append(partial(_call_by_path, setup) if isinstance(setup, str) else setup)
    if not steps:
        return None

    def run_all() -> None:
        for step in steps:
            step()

    return run_all


def _call_by_path(path: str) -> None:
    """Call the function at `package.module.name`."""
    module, _, name = path.rpartition(".")
    getattr(import_module(module), name)()


_KNOWN = frozenset(
    {
        "_memory",
        "_temp_dir",
        "_node_name",
        "_system_config",
        "_node_ip_address",
        "_metrics_export_port",
        "_tracing_startup_hook",
        "_enable_object_reconstruction",
        "_plasma_directory",
        "_driver_object_store_memory",
        "_redis_password",
        "_redis_username",
        "configure_logging",
        "logging_level",
        "logging_format",
        "logging_config",
        "dashboard_host",
        "dashboard_port",
        "allow_multiple",
        "enable_resource_isolation",
        "system_reserved_cpu",
        "system_reserved_memory",
    }
)


def _check_options(options: dict[str, Any]) -> None:
    unknown = sorted(set(options) - _KNOWN)
    if unknown:
        known = {*_KNOWN, *signature(init).parameters} - {"options"}
        near = nearest(unknown[0], known) or "."
        raise RuntimeError(f"Unknown keyword argument(s) of init: {', '.join(unknown)}{near}")


def _check_namespace(namespace: Any) -> None:
    if namespace is not None and not isinstance(namespace, str):
        raise TypeError(f"namespace must be a string, got {namespace!r}.")
    if namespace == "":
        raise ValueError("namespace must not be empty.")


def attached_engine() -> Engine | None:
    """Return this process's engine, or None. The process of a Ray worker gets its engine here."""
    engine = current()
    if engine is None:
        engine = engines.attach()
        set_current(engine)
    return engine


def engine_or_start() -> Engine:
    """Return this process's engine. If this process has no engine, start one on this machine.

    Raises SystemFailureError when starting a runtime is switched off (`phalanx.api.auto_init`).
    """
    engine = attached_engine()
    if engine is not None:
        return engine
    if not auto_init.is_on():
        raise _not_running()
    init()
    started = current()
    assert started is not None
    return started


def running_engine() -> Engine:
    """Return this process's engine. Raises SystemFailureError when this process has no engine."""
    engine = attached_engine()
    if engine is None:
        raise _not_running()
    return engine


def _not_running() -> SystemFailureError:
    spoken = dialect.current()
    ours = "Phalanx is not running: call phalanx.init() first."
    return SystemFailureError(ours if spoken is None else spoken.not_running)


def check_queue(engine: Engine, options: Mapping[str, Any]) -> None:
    """Raise QueueUnavailableError when the queue that the options name takes no work.

    The program's own queue is not checked, because `init` has checked it, and work there continues
    after the queue is closed.
    """
    queue = options.get("queue")
    if not queue or queue == engine.queue:
        return
    now = time.monotonic()
    if now - _admitted.get(queue, -ADMITTED_FOR_S) >= ADMITTED_FOR_S:
        _admitted.pop(queue, None)
        engine.ask(AdmitQueue(queue))
        _admitted[queue] = now


def is_initialized() -> bool:
    """Whether Phalanx is running in this process.

    Example:
        if not phalanx.is_initialized():
            phalanx.init()
    """
    engine = attached_engine()
    return engine is not None and engine.is_alive


def shutdown(_exiting_interpreter: bool = False) -> None:
    """End what `init` started: the driver's actors, workers and objects.

    Does nothing when Phalanx is not running. Raises SystemFailureError in a worker.

    Example:
        phalanx.init()
        phalanx.shutdown()
    """
    with _lock:
        engine = current()
        if engine is None:
            return
        if engine.is_worker:
            raise SystemFailureError("A worker cannot shut the runtime down.")
        set_current(None)
        _admitted.clear()
        engine.stop()
        spans.end()


@atexit.register
def _at_exit() -> None:
    engine = current()
    if engine is not None and not engine.is_worker:
        shutdown(True)


class _Output:
    """The receiver of the workers' lines and the runtime's warnings, which prints them on the
    standard streams.
    """

    def log(self, message: LogLine) -> None:
        """Print a line of a worker's output."""
        name = f"{message.name} " if message.name else ""
        line = f"({name}pid={message.pid}) {message.line}\n"
        _write(sys.stderr if message.is_error else sys.stdout, line)

    def warn(self, text: str) -> None:
        """Print a warning of the runtime."""
        _write(sys.stderr, f"(phalanx) {text}\n")


def _write(stream: TextIO, line: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # the stream is closed: nobody reads it
        stream.write(line)
        stream.flush()
