"""init and shutdown: this process's engine, made on demand."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import cloudpickle

from phalanx.api.amounts import check_amounts, node_amounts
from phalanx.api.logging_config import LoggingConfig
from phalanx.api.ray_address import connect_ray, ray_address
from phalanx.engines.embedded.daemons import local_nodes, numeric_address, split_address
from phalanx.engines.embedded.engine import EmbeddedEngine
from phalanx.engines.embedded.introduction import JobOptions
from phalanx.engines.embedded.own_node import StartOptions
from phalanx.engines.interface import Engine, current, set_current
from phalanx.engines.processes.session import Session
from phalanx.errors import SystemFailureError
from phalanx.model.options import check_task_options
from phalanx.protocol.node_messages import LogLine

_lock = threading.RLock()
_PROBE_S = 2.0


class RuntimeHandle(Mapping[str, Any]):
    """What init returns: facts about the runtime, and a context manager that shuts it down."""

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
        """Address of the dashboard; empty while there is none."""
        return ""

    @property
    def python_version(self) -> str:
        """This Python's version."""
        return sys.version.split()[0]

    def disconnect(self) -> None:
        """Shut the runtime down."""
        shutdown()

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
    job_config: Any = None,
    log_to_driver: bool = True,
    namespace: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    topology: str | None = None,
    queue: str | None = None,
    priority: int = 0,
    **options: Any,
) -> RuntimeHandle:
    """Connect to a cluster that runs on this machine, or start Phalanx here.

    `address` HOST:PORT of a cluster's head finds a node of it on this machine. None takes what
    PHALANX_ADDRESS names, else the cluster that was started here last, else starts a runtime that
    ends with this process; "auto" must find one, "local" always starts one. Raises ConnectionError
    when there is none, and ValueError when amounts are given and one is found.
    Amounts default to what the machine has. `object_store_memory` is in bytes (default: 30 % of
    free memory, and what shared memory holds). `topology` says how the GPUs are wired, so that
    several of one task are close: the name of a known machine such as "dgx_h100", or the text of
    `nvidia-smi topo -m`; real GPUs are asked. What this driver starts is charged to `queue`, by
    whose weight it shares nodes with drivers of other queues, and has `priority`, unless it says
    otherwise; a runtime of its own makes the queue if there is none. Raises RuntimeError when it
    is running already, unless `ignore_reinit_error`; QueueUnavailableError for a queue that takes
    no work; ValueError and TypeError for arguments that cannot be.
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
        if local_mode:
            raise RuntimeError("local_mode is not supported: use num_cpus=1 to go step by step.")
        is_ray, rays = ray_address(address)
        found = None if is_ray else find_node(address, options.get("_temp_dir"))
        check_amounts(num_cpus, num_gpus, resources, labels, object_store_memory)
        _check_namespace(namespace)
        check_task_options({"runtime_env": runtime_env, "queue": queue, "priority": priority})
        if is_ray:
            amounts = {
                "num_cpus": num_cpus,
                "num_gpus": num_gpus,
                "resources": resources,
                "labels": labels,
                "object_store_memory": object_store_memory,
                "include_dashboard": include_dashboard,
            }
            return _begin(
                connect_ray(
                    rays,
                    amounts,
                    namespace=namespace,
                    runtime_env=runtime_env,
                    log_to_driver=log_to_driver,
                    queue=queue or "",
                    priority=priority,
                    options=options,
                    warn=_print_warning,
                ),
                runtime_env,
            )
        hook = _hook(runtime_env, options.get("logging_config"))
        job = JobOptions(
            namespace=namespace or str(uuid.uuid4()),
            log_to_driver=log_to_driver,
            hook=hook,
            queue=queue or "",
            priority=priority,
        )
        if found is not None:
            _check_connecting(num_cpus, num_gpus, resources, labels, object_store_memory)
            joined = EmbeddedEngine.connect(found, job, _print_log, _print_warning)
            return _begin(joined, runtime_env)
        here = node_amounts(
            num_cpus,
            num_gpus,
            resources,
            object_store_memory,
            memory=options.get("_memory"),
            topology=topology or "",
            is_first=True,
        )
        start = StartOptions(
            resources=here.resources,
            labels=dict(labels or {}),
            object_store_bytes=here.object_store_bytes,
            prestart=min(int(here.resources.get("CPU", 0)), 8),
            temp_dir=options.get("_temp_dir"),
            topology=here.topology,
        )
        started = EmbeddedEngine.start(start, job, _print_log, _print_warning)
        return _begin(started, runtime_env, found_none=True)


def _begin(
    engine: Engine, runtime_env: dict[str, Any] | None, found_none: bool = False
) -> RuntimeHandle:
    engine.default_env = dict(runtime_env or {})
    set_current(engine)
    if engine.queue:
        try:
            engine.request("batch.admit", name=engine.queue, makes=found_none)
        except BaseException:
            shutdown()
            raise
    return RuntimeHandle(engine.facts())


def find_node(address: str | None, temp_dir: str | None) -> Session | None:
    """The node on this machine that a driver is to use; None: it starts one of its own.

    As Ray looks for RAY_ADDRESS: a concrete address is meant as it is; None and "auto" take
    PHALANX_ADDRESS, else the cluster that was started last on this machine; without any, "auto"
    raises ConnectionError. So does an address of which no node runs here. "local" starts one.
    Raises ValueError for what is no address.
    """
    if address in (None, "", "auto"):
        named = os.environ.get("PHALANX_ADDRESS") or "auto"
        address = named if named not in ("auto", "local") else address
        if named == "local" and address != "auto":
            return None
    if address == "local":
        return None
    if address not in (None, "", "auto"):
        return _node_of(numeric_address(str(address)), temp_dir)
    nodes = local_nodes(None, temp_dir)
    if nodes:
        last = nodes[-1][1].address
        return next(session for session, one in nodes if one.address == last)
    if address != "auto":
        return None
    raise ConnectionError(
        "No running Phalanx was found on this machine. Start one with `phalanx start --head`, name "
        "one with `address` or PHALANX_ADDRESS, or leave `address` out to start one in this "
        "process."
    )


def _node_of(address: str, temp_dir: str | None) -> Session:
    nodes = local_nodes(address, temp_dir)
    if nodes:
        return nodes[0][0]
    try:
        socket.create_connection(split_address(address), timeout=_PROBE_S).close()
    except OSError as error:
        reason = (error.strerror or "no answer").lower()
        raise ConnectionError(
            f"Nothing listens at {address} ({reason}): `phalanx start --head` starts a cluster "
            "there, and `phalanx status` on its machine shows where it is."
        ) from None
    raise ConnectionError(
        f"No node of the cluster at {address} runs on this machine under this user: `phalanx start "
        f"--address {address}` joins it. A driver needs a node beside it."
    )


def _check_connecting(*amounts: Any) -> None:
    if any(amount is not None for amount in amounts):
        raise ValueError(
            "num_cpus, num_gpus, resources, labels and object_store_memory belong to nodes: they "
            "cannot be given when connecting to a running cluster. "
            'address="local" starts a runtime of its own.'
        )


def _hook(runtime_env: dict[str, Any] | None, logging_config: LoggingConfig | None) -> bytes:
    """What each worker of this job runs at its start, pickled; empty for nothing."""
    steps = []
    if logging_config is not None:
        logging_config.apply()
        steps.append(logging_config.apply)
    if os.environ.get("PHALANX_COMPAT_RAY") == "1":
        from importlib import import_module

        steps.append(import_module("phalanx.compat.ray").install)
    if (setup := (runtime_env or {}).get("worker_process_setup_hook")) is not None:
        steps.append(setup)
    if not steps:
        return b""

    def run_all() -> None:
        for step in steps:
            step()

    data: bytes = cloudpickle.dumps(run_all)
    return data


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
        raise RuntimeError(f"Unknown keyword argument(s) of init: {', '.join(unknown)}.")


def _check_namespace(namespace: Any) -> None:
    if namespace is not None and not isinstance(namespace, str):
        raise TypeError(f"namespace must be a string, got {namespace!r}.")
    if namespace == "":
        raise ValueError("namespace must not be empty.")


def present() -> Engine | None:
    """This process's engine, if it has one: also that of a Ray worker, once it asks."""
    engine = current()
    if engine is None and "ray" in sys.modules:
        from phalanx.engines.ray.connecting import attach

        engine = attach()
        set_current(engine)
    return engine


def engine_or_start() -> Engine:
    """This process's engine; starts one on this machine when there is none."""
    engine = present()
    if engine is not None:
        return engine
    init()
    started = current()
    assert started is not None
    return started


def running_engine() -> Engine:
    """This process's engine. Raises SystemFailureError when there is none."""
    engine = present()
    if engine is None:
        raise SystemFailureError("Phalanx is not running: call phalanx.init() first.")
    return engine


def is_initialized() -> bool:
    """Whether Phalanx is running in this process."""
    engine = present()
    return engine is not None and engine.is_alive


def shutdown(_exiting_interpreter: bool = False) -> None:
    """End what init started: its actors, workers, objects. Does nothing when not running."""
    with _lock:
        engine = current()
        if engine is None:
            return
        if engine.is_worker:
            raise SystemFailureError("A worker cannot shut the runtime down.")
        set_current(None)
        engine.stop()


@atexit.register
def _at_exit() -> None:
    engine = current()
    if engine is not None and not engine.is_worker:
        shutdown(True)


def _print_log(message: LogLine) -> None:
    stream = sys.stderr if message.is_error else sys.stdout
    name = f"{message.name} " if message.name else ""
    try:
        stream.write(f"({name}pid={message.pid}) {message.line}\n")
        stream.flush()
    except (OSError, ValueError):
        return  # a closed stream: nobody reads


def _print_warning(text: str) -> None:
    try:
        sys.stderr.write(f"(phalanx) {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return
