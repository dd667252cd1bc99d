"""The commands `phalanx start` and `phalanx stop` for heads and nodes on this machine."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

from phalanx.cli import panels
from phalanx.cli.amounts import memory_bytes
from phalanx.cli.configuration import values
from phalanx.cli.configuration.sources import read_sources, settle
from phalanx.cli.durations import METAVAR, seconds_at_least
from phalanx.cli.node_checks import read_check_rules, read_checks
from phalanx.cli.options import Option
from phalanx.cli.reach import FAILED, NOT_ALLOWED, USAGE, fail
from phalanx.cli.table import report, say
from phalanx.model.readable import amount, size
from phalanx.runtime.engine import starting as engines
from phalanx.storage.naming import storage_name

if TYPE_CHECKING:
    from phalanx.runtime.daemons.starting import Daemon
    from phalanx.runtime.os.node_amounts import NodeAmounts

PORT = 6380
"""The port on which a head listens by default."""


def default_store() -> str:
    """Return the path of a head's default store, which `phalanx stop --forget` deletes."""
    home = os.path.expanduser("~")
    return os.path.join(home, ".phalanx", "store", f"{socket.gethostname()}.db")


def start(
    head: Annotated[
        bool, Option("--head", help="Start a cluster: its head and a node on this machine.")
    ] = False,
    address: Annotated[
        str | None,
        Option(
            help="Address of the head that a node of this machine joins: HOST:PORT, or auto for a "
            "head on this machine. ray:auto starts the scheduler on a Ray cluster instead."
        ),
    ] = None,
    no_node: Annotated[
        bool,
        Option("--no-node", help="Start only the head, without a node on this machine."),
    ] = False,
    block: Annotated[
        bool,
        Option(
            "--block",
            help="Stay in the foreground. SIGTERM or Ctrl-C ends all daemons that this command "
            "started. Exit 1 when a daemon ends by itself.",
        ),
    ] = False,
    host: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.NETWORK,
            help="IP address of this machine at which other machines reach it, such as 10.0.0.1. "
            "Default: 127.0.0.1.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        Option(
            min=0,
            max=65535,
            rich_help_panel=panels.NETWORK,
            help=f"TCP port to listen on. Default: {PORT} with --head, else any free port.",
        ),
    ] = None,
    store: Annotated[
        list[str] | None,
        Option(
            rich_help_panel=panels.HEAD,
            help="Store of the head: path of a file, redis://HOST:PORT or memory. If the option is "
            "repeated, the head divides its data among the stores.",
        ),
    ] = None,
    accept_loss: Annotated[
        bool,
        Option(
            "--accept-loss",
            rich_help_panel=panels.HEAD,
            help="Start even if the store has lost confirmed changes or was emptied.",
        ),
    ] = False,
    history: Annotated[
        list[str] | None,
        Option(
            rich_help_panel=panels.HEAD,
            help="Amount of job history to keep, as NAME=NUMBER: days (age of the oldest record), "
            "records (number of records) or sum_days (age of the oldest hourly sum), such as "
            "days=90; may be repeated.",
        ),
    ] = None,
    limit: Annotated[
        list[str] | None,
        Option(
            rich_help_panel=panels.HEAD,
            help="Limit after which a silent node counts as dead, as NAME=NUMBER, such as "
            "misses=5. Names: period_s (seconds between two reports), misses (number of "
            "missing reports), and joining_s, reconnect_s, restart_s and restored_s (seconds; "
            "see docs/howto/cluster.md). May be repeated.",
        ),
    ] = None,
    num_cpus: Annotated[
        int | None,
        Option(
            rich_help_panel=panels.RESOURCES,
            help="CPUs that the node offers. Default: all of this machine.",
        ),
    ] = None,
    num_gpus: Annotated[
        int | None,
        Option(
            rich_help_panel=panels.RESOURCES,
            help="GPUs that the node offers. Default: all of this machine.",
        ),
    ] = None,
    resources: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.RESOURCES,
            help="Further resources that the node offers, as JSON, such as '{\"TPU\": 4}'.",
        ),
    ] = None,
    node_name: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.NODE, help="Name of the node. Default: the machine's host name."
        ),
    ] = None,
    labels: Annotated[
        list[str] | None,
        Option(
            rich_help_panel=panels.NODE,
            help="Labels of the node, as KEY=VALUE, separated by commas.",
        ),
    ] = None,
    object_store_memory: Annotated[
        int | None,
        Option(
            parser=memory_bytes,
            metavar="MEMORY",
            rich_help_panel=panels.RESOURCES,
            help="Size of the node's object store, such as 8GiB or 8e9 (bytes).",
        ),
    ] = None,
    topology: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.DEVICES,
            help="Machine model whose GPU wiring this node has, such as dgx_h100.",
        ),
    ] = None,
    ports: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.NODE,
            help="Ports that gangs may use on the node, such as '20000-20999,8080'.",
        ),
    ] = None,
    devices: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.DEVICES,
            help="File from which the node reads the state of its GPUs, instead of from the "
            "driver; see docs/howto/health.md.",
        ),
    ] = None,
    check: Annotated[
        list[str] | None,
        Option(
            rich_help_panel=panels.CHECKS,
            help="Health check of the node, as NAME=COMMAND; the command's exit code 0, 1 or 2 is "
            "the result (see docs/howto/health.md). May be repeated.",
        ),
    ] = None,
    check_every: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.CHECKS,
            help="Time between two runs of the checks while the node is idle: 90s, 15m or 10 "
            "(minutes). Default: 10m.",
        ),
    ] = None,
    check_limit: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.CHECKS,
            help="Time limit of each check: 90s, 15m or 10 (minutes). Default: 1m.",
        ),
    ] = None,
    placement: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.HEAD,
            help="Policy by which the cluster places work: default, hybrid, least-waiting, "
            "selector, two-pass-random, or your own. A policy with settings is a YAML "
            "mapping, such as '{policy: selector, same_rack: prefer}'. See "
            "docs/explanation/placement.md.",
        ),
    ] = None,
    system_config: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.HEAD,
            help="Settings of the cluster under Ray's names, as JSON, such as "
            "'{\"max_lineage_bytes\": 1000000}'.",
        ),
    ] = None,
    spill_threshold: Annotated[
        int | None,
        Option(
            min=0,
            rich_help_panel=panels.NODE,
            help="Number of requests that may wait on this node; for further requests, the node "
            "asks other nodes. Default: 0.",
        ),
    ] = None,
    patience: Annotated[
        float | None,
        Option(
            parser=seconds_at_least(1),
            metavar=METAVAR,
            rich_help_panel=panels.NODE,
            help="Time that the node waits for a lost head before it ends: 90s, 15m or 90 "
            "(seconds). A node that holds resources of jobs waits a day; a node on which "
            "work runs waits without limit. Default: 60s.",
        ),
    ] = None,
    gpu_resource: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.DEVICES,
            help="With ray:auto: Ray resource that stands for the GPUs that gangs get. "
            "Default: GPU.",
        ),
    ] = None,
    token_file: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.NETWORK,
            help="File with the cluster's token. Default: PHALANX_TOKEN_FILE, or ~/.phalanx/token.",
        ),
    ] = None,
    shared: Annotated[
        bool,
        Option(
            "--shared",
            rich_help_panel=panels.HEAD,
            help="Let other users of this machine submit jobs to the queues whose lists name "
            "them; see docs/howto/people.md.",
        ),
    ] = False,
    group: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.HEAD,
            help="Group of accounts that may connect to a shared head. Default: all accounts.",
        ),
    ] = None,
    system: Annotated[
        bool,
        Option(
            "--system",
            rich_help_panel=panels.NODE,
            help="Run jobs as their submitters, through root's program phalanx-launch; see "
            "docs/howto/people.md.",
        ),
    ] = False,
    insecure: Annotated[
        bool,
        Option(
            "--insecure",
            rich_help_panel=panels.NETWORK,
            help="Connect machines without TLS; see docs/explanation/security.md.",
        ),
    ] = False,
) -> None:
    """Start a cluster (--head) or join one (--address).

    Options that are not given come from variables such as PHALANX_START_NUM_CPUS, then from
    ~/.phalanx/config.toml, then from /etc/phalanx/config.toml (`phalanx config show`).

    Exit 2: wrong usage. Exit 4: wrong token.
    """
    given = locals()
    with _failing_readably():
        found = settle("start", given, read_sources(os.environ))
        options = values.StartOptions(**{name: one.value for name, one in found.items()})
    _start(options)


def _start(options: values.StartOptions) -> None:
    address = options.address
    if options.head == (address is not None):
        fail("Give either --head, to start a cluster, or --address HOST:PORT, to join one.", USAGE)
    if address is not None and (engine := engines.engine_of(address)) is not None:
        with _failing_readably():
            of_engine: dict[str, object] = {
                "gpu_resource": options.gpu_resource,
                "topology": options.topology,
                "placement": values.read_placement(options.placement),
                **({"store": tuple(options.store)} if options.store else {}),
            }
            say(engines.entry_of(engine).start_scheduler(address, of_engine))
        return
    if address is not None and any(getattr(options, name) for name in values.OF_HEAD):
        belong = (
            "--no-node, --store, --accept-loss, --limit, --history, --system-config, --placement, "
            "--shared and --group"
        )
        fail(f"{belong} are only for --head.", USAGE)
    if options.group and not options.shared:
        fail("--group is only for --shared: it names the accounts that share the head.", USAGE)
    if options.system:
        _check_system(is_head=address is None, is_shared=options.shared)
    with _failing_readably():
        values.check_host(options.host)
        node = {
            "launch": _launch_socket() if options.system else "",
            "node_name": options.node_name,
            "labels": values.read_labels(options.labels),
            "host": options.host,
            "token_file": os.path.abspath(options.token_file) if options.token_file else "",
            "insecure": options.insecure,
            "ports": options.ports,
            "devices": os.path.abspath(options.devices) if options.devices else "",
            "checks": read_checks(options.check),
            "check_rules": read_check_rules(options.check_every, options.check_limit),
            "spill_threshold": options.spill_threshold,
            "patience_s": options.patience,
        }
        amounts = {
            "num_cpus": options.num_cpus,
            "num_gpus": options.num_gpus,
            "resources": values.read_resources(options.resources),
            "object_store_memory": options.object_store_memory,
        }
        # The daemons of --block end with this process, also when it is killed.
        parent_fd, kept_open = os.pipe() if options.block else (-1, -1)
        start_it = _start_head if address is None else _join
        started = start_it(node, amounts, options, parent_fd)
    if options.block:
        from phalanx.runtime.daemons.blocking import stay

        ended = stay(started)
        os.close(kept_open)
        if ended is not None:
            fail(f"The {ended.announcement.kind} has ended by itself: see {ended.log_path}.")


def stop(
    force: Annotated[
        bool, Option("--force", help="Kill all processes at once, without time to end their work.")
    ] = False,
    forget: Annotated[
        bool, Option("--forget", help="Also delete the head's queues, jobs, history and audit log.")
    ] = False,
    yes: Annotated[
        bool, Option("--yes", "-y", help="Delete without asking (with --forget).")
    ] = False,
    address: Annotated[
        str | None,
        Option(help="Address of a Ray cluster (ray:auto) whose scheduler is to end."),
    ] = None,
) -> None:
    """End this user's heads and nodes on this machine, or the scheduler on a Ray cluster.

    The head's store is kept: the next `phalanx start --head` continues with its queues and jobs.
    """
    if yes and not forget:
        fail("--yes is only for --forget: it answers the question that --forget asks.", USAGE)
    if address is not None:
        if (engine := engines.engine_of(address)) is None:
            fail("--address takes a Ray cluster: ray:auto or ray:HOST:PORT.", USAGE)
        if forget:
            fail(
                "--forget is only for this machine's head: Ray's store ends with Ray's head.", USAGE
            )
        with _failing_readably():
            say(engines.entry_of(engine).stop_scheduler(address))
        return
    from phalanx.runtime.daemons.starting import stop_all
    from phalanx.storage import ledger
    from phalanx.storage.opening import delete_audit
    from phalanx.storage.sqlite import delete, exists

    store = default_store()
    if forget and not yes and exists(store):
        import typer

        try:
            sure = f"Delete all queues, jobs, history and the audit log in {store}?"
            typer.confirm(sure, abort=True)
        except typer.Abort:
            fail("Nothing was ended or deleted. `phalanx stop --forget --yes` asks no question.")
    ended = stop_all(force=force)
    for one in ended:
        name = f"node {one.name}" if one.kind == "node" else "head"
        report(f"Ended the {name} of the cluster at {one.address}.")
    if not ended:
        report("No head and no node runs on this machine under this user.")
    with _failing_readably():
        if forget and delete(store):
            ledger.delete(store + ledger.ENDING)
            delete_audit(store)
            report(f"Deleted {store}: the next head begins with nothing.")
        elif not forget and any(one.kind == "head" for one in ended) and exists(store):
            report(
                f"Kept {store}: the next head continues with its queues and jobs. `phalanx stop "
                "--forget` deletes it."
            )


# ---- what start does ---------------------------------------------------------------------------


def _start_head(
    node: dict[str, Any], amounts: dict[str, Any], given: values.StartOptions, parent_fd: int
) -> list[Daemon]:
    """Start a head, and a node where one is wanted and none runs."""
    from phalanx.runtime.daemons.cluster_token import default_path
    from phalanx.runtime.daemons.local import local_daemons
    from phalanx.runtime.daemons.starting import HeadOptions, start_head
    from phalanx.storage.errors import StorageInUseError
    from phalanx.storage.opening import audit_path, history_path
    from phalanx.storage.sqlite import delete, exists

    limits, policy = values.read_limits(given.limit), values.read_placement(given.placement)
    port = PORT if given.port is None else given.port
    kept, settings = values.read_history(given.history), values.read_settings(given.system_config)
    if settings.memory_limit is not None:
        node["memory_limit"] = settings.memory_limit
    of_node = None
    if not given.no_node:
        of_node = _amounts(amounts, given.topology, node["host"], is_first=True)
    running = [one for _, one in local_daemons() if one.kind == "head"]
    if running:
        fail(
            f"A head runs here already, at {running[0].address}: `phalanx status` shows it, "
            "`phalanx stop` ends it."
        )
    addresses = tuple(_in_full(one) for one in given.store or [default_store()])
    is_again = not given.store and exists(default_store())
    known = {one.cluster for _, one in local_daemons(f"{node['host']}:{port}")} - {""}
    options = HeadOptions(
        host=node["host"],
        port=port,
        token_file=node["token_file"],
        insecure=node["insecure"],
        store=addresses,
        marks=os.path.dirname(default_store()),
        cluster=min(known, default=""),
        accept_loss=given.accept_loss,
        history=history_path(addresses[0], os.path.dirname(default_store())),
        history_limits=kept,
        audit=audit_path(addresses[0], os.path.dirname(default_store())),
        limits=limits,
        placement=policy,
        settings=settings,
        is_shared=given.shared,
        group=given.group,
        launch_keys=_launch_keys() if node["launch"] else "",
    )
    try:
        started = start_head(options, parent_fd)
    except BaseException:
        if not given.store and not is_again:
            with contextlib.suppress(StorageInUseError):
                delete(default_store())  # else the next head would continue an empty store
        raise
    where = started.announcement.address
    report(f"Head at {where}; its store is {storage_name(addresses)}.")
    if is_again:
        report("It continues with the state of the previous head: queues, jobs, names, groups.")
    here = [one for _, one in local_daemons(where) if one.kind == "node"]
    daemons = [started]
    if here:
        report(f"Node {here[0].name} already runs here, and joins it again.")
    elif of_node is not None:
        if node["launch"]:
            node["shared_dir"] = os.path.dirname(started.announcement.shared)
        try:
            daemons.append(_start_node(where, node, of_node, parent_fd))
        except BaseException:
            started.stop()
            raise
    token = node["token_file"] or default_path()
    report(_what_next(where, token, node["insecure"]))
    if started.announcement.shared:
        is_system = bool(node["launch"])
        report(_shared_text(started.announcement.shared, given.group, is_system))
    return daemons


def _join(
    node: dict[str, Any], amounts: dict[str, Any], given: values.StartOptions, parent_fd: int
) -> list[Daemon]:
    from phalanx.runtime.daemons.local import numeric_address, split_address

    assert given.address is not None
    where = _head_here() if given.address == "auto" else numeric_address(given.address)
    is_far = not ipaddress.ip_address(split_address(where)[0]).is_loopback
    if is_far and ipaddress.ip_address(node["host"]).is_loopback:
        fail(
            f"The head at {where} is on another machine, and this node would listen on "
            f"{node['host']}, where the other nodes cannot reach it: give this machine's address "
            "with --host.",
            USAGE,
        )
    of_node = _amounts(amounts, given.topology, node["host"], is_first=False)
    return [_start_node(where, {**node, "port": given.port or 0}, of_node, parent_fd)]


def _head_here() -> str:
    from phalanx.runtime.daemons.local import local_daemons

    heads = [one.address for _, one in local_daemons() if one.kind == "head"]
    if not heads:
        fail("No head runs on this machine under this user: --address takes its HOST:PORT.")
    return heads[-1]


def _start_node(where: str, node: dict[str, Any], amounts: NodeAmounts, parent_fd: int) -> Daemon:
    from phalanx.runtime.daemons.starting import NodeOptions, start_node

    started = start_node(
        NodeOptions(
            head=where,
            resources=amounts.resources,
            object_store_bytes=amounts.object_store_bytes,
            topology=amounts.topology,
            machine=amounts.machine,
            **{**node, "labels": {**amounts.labels, **node["labels"]}},
        ),
        parent_fd,
    )
    has = ", ".join(
        f"{name} {size(value) if 'memory' in name else amount(value)}"
        for name, value in amounts.resources.items()
        if not name.startswith("node:")
    )
    report(f"Node {started.announcement.name} joined the cluster at {where}: {has}.")
    return started


def _amounts(amounts: dict[str, Any], topology: str, host: str, is_first: bool) -> NodeAmounts:
    from phalanx.api.amounts import check_amounts
    from phalanx.runtime.os.node_amounts import node_amounts

    check_amounts(
        amounts["num_cpus"],
        amounts["num_gpus"],
        amounts["resources"],
        None,
        amounts["object_store_memory"],
    )
    return node_amounts(**amounts, topology=topology, host=host, is_first=is_first)


def _what_next(where: str, token: str, is_insecure: bool) -> str:
    host = where.rpartition(":")[0].strip("[]")
    is_local = ipaddress.ip_address(host).is_loopback
    join = f"phalanx start --address {where}"
    if not is_local:
        join += " --host THAT_MACHINES_ADDRESS" + (" --insecure" if is_insecure else "")
    lines = [
        "",
        "From Python on this machine:  phalanx.init()",
        f"Another node:                 {join}",
        "The cluster:                  phalanx status",
        "Its web page:                 phalanx dashboard",
        "The end:                      phalanx stop",
        "",
    ]
    if is_local:
        lines.append(
            "It listens only on this machine. To let other machines join, start it with --host and "
            "this machine's address."
        )
    else:
        lines.append(f"Other machines need the token first: copy {token} there, mode 0600.")
    lines.append(f"The token is in {token}. Anyone who has it can run anything here.")
    return "\n".join(lines)


def _shared_text(directory: str, group: str, is_system: bool) -> str:
    from phalanx.runtime.daemons.daemon_files import OF_SOCKET

    sharers = f"The accounts of the group {group}" if group else "All accounts of this machine"
    reach = (
        f"{sharers} reach the head at PHALANX_ADDRESS={OF_SOCKET}{directory}; they submit to the "
        "queues whose lists name them: phalanx queue update default --submit USER,@GROUP\n"
    )
    if is_system:
        from phalanx.runtime.head.signing import public_path

        return reach + (
            "Jobs run as their submitters, on nodes whose phalanx-launch has this head's key: "
            f"{public_path(_launch_keys())}"
        )
    return reach + (
        "All jobs run as the user of this node, so jobs can read and end each other: rights "
        "prevent mistakes here, not attacks (docs/explanation/security.md)."
    )


def _launch_socket() -> str:
    from phalanx.runtime.node.user_forks import LAUNCH

    return os.environ.get("PHALANX_LAUNCH") or LAUNCH


def _launch_keys() -> str:
    return os.path.join(os.path.expanduser("~"), ".phalanx", "launch")


def _check_system(is_head: bool, is_shared: bool) -> None:
    if os.getuid() == 0:
        fail(
            "--system is for a node whose account is not root but, for example, phalanx. Root "
            "starts phalanx-launch (docs/howto/people.md).",
            USAGE,
        )
    if is_head and not is_shared:
        fail("--system needs --shared: jobs are to run as the people who share the head.", USAGE)
    if is_head and find_spec("cryptography") is None:
        fail("--system needs the package cryptography: pip install 'phalanx[cluster]'.", FAILED)


def _in_full(store: str) -> str:
    """Return the absolute path of a store, because the next head may start in another directory."""
    if store == "memory" or "://" in store:
        return store
    return os.path.abspath(store.removeprefix("sqlite:"))


@contextlib.contextmanager
def _failing_readably() -> Any:
    """Turn expected errors into one sentence on standard error and an exit code."""
    from phalanx.errors import AuthenticationError, PhalanxError

    try:
        yield
    except AuthenticationError as error:
        fail(_sentence(error), NOT_ALLOWED)
    except (TypeError, ValueError) as error:
        fail(_sentence(error), USAGE)
    except (PhalanxError, OSError) as error:
        fail(_sentence(error), FAILED)


def _sentence(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text[0].upper() + text[1:] if text.split()[0].isalpha() else text
