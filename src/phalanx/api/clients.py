"""`init("phalanx://HOST")`: a program whose driver runs on the cluster, as a job of its user."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
import uuid
from typing import Any, TypeVar

import msgspec

from phalanx.api.job import Job
from phalanx.api.new_manifests import job_manifest, new_request
from phalanx.errors import AuthenticationError, PhalanxError
from phalanx.model.jobs.spec import DEFAULT_QUEUE
from phalanx.model.rows.cluster import SYSTEM
from phalanx.objects import by_value
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.jobs import CommandJob
from phalanx.protocol.requests.request import Request
from phalanx.runtime.client.joining import ANSWER_S, ClientOf, join
from phalanx.runtime.client.link import Refused
from phalanx.runtime.client.settings import VARIABLE, DriverSettings
from phalanx.runtime.daemons import logins
from phalanx.runtime.daemons.daemon_files import OF_CLIENT
from phalanx.runtime.daemons.personal_token import own_token, parse
from phalanx.runtime.daemons.remote import ask_remote
from phalanx.runtime.daemons.trust import Trust
from phalanx.runtime.engine import dialect
from phalanx.runtime.engine.interface import Engine, EngineOptions, Output, check_connecting

R = TypeVar("R")

PORT = 6380
"""The port of a head if an address names none."""
RECONNECT_S = 60.0
"""Seconds for which a client and its driver wait for each other after their connection was lost."""
RECONNECT = "RAY_CLIENT_RECONNECT_GRACE_PERIOD"
"""The environment variable of Ray that replaces RECONNECT_S, in seconds."""
_COMMAND = 'exec "$PHALANX_PYTHON" -m phalanx.runtime.client.driver'
_KEPT_S = 3600.0
"""Seconds for which the job of a driver stays in listings after its end."""
_OWN_CPUS = 1
"""The CPUs of a driver's job in the mode *system*, if the program names none."""
_HOOK_BYTES = 1 << 16
_PAUSE_S = 0.05
_SAY_AFTER_S = 5.0


def connect(where: str, options: EngineOptions, output: Output) -> Engine:
    """Start a driver on the cluster at `where`, and connect with it.

    If the cluster's mode is *system*, the driver's job holds the CPUs and GPUs that `options`
    names, by default one CPU. The program's work runs on these CPUs and GPUs. Raises ValueError if
    `options` names amounts for a cluster in another mode, ConnectionError and AuthenticationError
    if the head cannot be reached with a login or token of this user, and SystemFailureError if the
    driver ends before it serves.
    """
    address, token, trust = way_to(where)

    def ask(request: Request[R]) -> R:
        return ask_remote(address, token, request, ANSWER_S, trust)

    is_system = ask(GetStatus(is_brief=True)).mode == SYSTEM
    num_cpus, num_gpus = _amounts(options, is_system)
    secret = secrets.token_bytes(32)
    patience_s = reconnect_s()
    hook = b"" if options.hook is None else by_value.dumps(options.hook)
    if len(hook) > _HOOK_BYTES:
        raise ValueError(
            f"the setup function of workers has {len(hook)} bytes, and a client may send "
            f"{_HOOK_BYTES}"
        )
    settings = DriverSettings(
        secret_hash=hashlib.sha256(secret).digest(),
        namespace=options.namespace or str(uuid.uuid4()),
        queue="" if is_system else options.queue,
        priority=0 if is_system else options.priority,
        log_to_driver=options.log_to_driver,
        hook=hook,
        reconnect_s=patience_s,
        has_own_cluster=is_system,
    )
    job = Job(
        _COMMAND,
        name=f"client-{secrets.token_hex(5)}",
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        queue=options.queue or DEFAULT_QUEUE,
        priority=options.priority,
        env={VARIABLE: msgspec.json.encode(settings).decode()},
        working_dir="",
        ttl_s=_KEPT_S,
    )
    spec = job.spec()
    ask(new_request([job_manifest(spec)]))
    client = ClientOf(
        address=address, token=token, trust=trust, job=spec.uid, secret=secret,
        reconnect_s=patience_s,
    )  # fmt: skip
    try:
        return _wait(client, options, output)
    except BaseException:
        # If the request fails, the driver ends by itself, because no client comes.
        with contextlib.suppress(OSError, PhalanxError):
            ask(CommandJob(spec.uid, "cancel"))
        raise


def _amounts(options: EngineOptions, is_system: bool) -> tuple[float, float]:
    """Return the number of CPUs and of GPUs that the driver's job holds. Raises ValueError for
    options that a program which connects to a cluster cannot give.
    """
    if not is_system:
        check_connecting(options)
        return 0, 0
    rest = msgspec.structs.replace(options, num_cpus=None, num_gpus=None)
    check_connecting(rest, " Only num_cpus and num_gpus set the size of the program's own job.")
    num_cpus = _OWN_CPUS if options.num_cpus is None else options.num_cpus
    return num_cpus, options.num_gpus or 0


def _wait(client: ClientOf, options: EngineOptions, output: Output) -> Engine:
    """Wait until the driver accepts connections, and connect with it. If the wait is long, print
    the reason.
    """
    say_at = time.monotonic() + _SAY_AFTER_S
    said = ""
    while True:
        try:
            return join(client, client.reach(), options, output)
        except Refused:  # another try would be refused, too
            raise
        except (ConnectionError, TimeoutError):
            why = client.check_job()
        if time.monotonic() >= say_at and why != said:
            said = why
            output.warn(f"The driver {client.job} waits: {why or 'it is being started'}")
        time.sleep(_PAUSE_S)


def way_to(address: str) -> tuple[str, Any, Trust]:
    """Return the head's address, with the token and the trusted certificate with which the head is
    reached.
    """
    name = address.removeprefix(OF_CLIENT).rstrip("/")
    known = logins.read()
    login = known.named(name) if name else logins.chosen(None)
    if login is None and not name:
        raise ConnectionError("There is no current login: phalanx login HOST, or name the host.")
    if login is None:
        where = name if ":" in name else f"{name}:{PORT}"
        login = known.at(where)
    if login is not None:
        return login.address, login.secret, login.trust
    spoken = dialect.current()
    given = "" if spoken is None else spoken.person_token()
    token = parse(given) if given else own_token()
    if given and token is None:
        raise AuthenticationError(
            "the token in the variables of this program is not that of a person, which looks like "
            "phx_ID_SECRET: `phalanx token create` makes one on the cluster"
        )
    if token is None:
        raise AuthenticationError(
            f"there is no login at {where}, and no token of a person in PHALANX_TOKEN_FILE: "
            f"phalanx login {where}"
        )
    return where, token, Trust()


def reconnect_s() -> float:
    """Return for how many seconds a client and its driver wait for each other after a lost
    connection.
    """
    text = os.environ.get(RECONNECT, "")
    return float(text) if text.replace(".", "", 1).isdecimal() else RECONNECT_S
