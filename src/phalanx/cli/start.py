"""The command `phalanx start`: its options, and checks of their combinations."""

from __future__ import annotations

import os
from typing import Annotated

from phalanx.cli import panels
from phalanx.cli.amounts import memory_bytes
from phalanx.cli.cluster_start import PORT, check_system, join, start_head
from phalanx.cli.configuration import values
from phalanx.cli.configuration.sources import read_sources, settle
from phalanx.cli.durations import METAVAR, seconds_at_least
from phalanx.cli.options import Option
from phalanx.cli.reach import USAGE, fail
from phalanx.cli.readable_errors import failing_readably
from phalanx.cli.table import say
from phalanx.runtime.engine import starting as engines


def start(
    head: Annotated[
        bool, Option("--head", help="Start a cluster: its head and a node on this machine.")
    ] = False,
    address: Annotated[
        str | None,
        Option(
            help="Address of the head that a node of this machine joins: HOST:PORT, or auto for a "
            "head on this machine. With standbys: HOST:PORT,HOST:PORT. ray:auto starts the "
            "scheduler on a Ray cluster instead."
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
            help="IP address of this machine at which other machines reach it, such as "
            "10.0.0.1. No other machine can reach the default address. Default: 127.0.0.1.",
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
            help="Store in which the head keeps its state: path of a file, redis://HOST:PORT or "
            "memory. If the option is repeated, the head divides its state among the stores. If "
            "it is not given, the store is the file ~/.phalanx/store/HOSTNAME.db.",
        ),
    ] = None,
    standby: Annotated[
        list[str] | None,
        Option(
            rich_help_panel=panels.HEAD,
            help="Address of another head that uses the same store, as HOST:PORT. This head waits "
            "while the other head serves, and takes over when the other head is gone. Needs a "
            "store in a server, such as redis://HOST:PORT. May be repeated.",
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
            help="Limit of the job history, as NAME=NUMBER: days=366 (days for which records are "
            "kept), records=5000000 (number of records kept) or sum_days=731 (days for which "
            "hourly sums of usage are kept). These numbers are the defaults. May be repeated.",
        ),
    ] = None,
    limit: Annotated[
        list[str] | None,
        Option(
            rich_help_panel=panels.HEAD,
            help="Limit after which the head counts a silent node as dead, as NAME=NUMBER. A node "
            "may be silent for 15 seconds, which is the product of misses=5 and period_s=3; for "
            "joining_s=5 more seconds if it has just joined; and for restored_s=30 more seconds "
            "after a restart of the head. "
            "After its connection has ended, a node must come back within reconnect_s=2 seconds "
            "or, if it runs commands of jobs, restart_s=60 seconds. These numbers are the "
            "defaults. May be repeated.",
        ),
    ] = None,
    num_cpus: Annotated[
        int | None,
        Option(
            rich_help_panel=panels.RESOURCES,
            help="Number of CPUs that the node offers. Default: the CPUs of this machine that "
            "the command may use.",
        ),
    ] = None,
    num_gpus: Annotated[
        int | None,
        Option(
            rich_help_panel=panels.RESOURCES,
            help="Number of GPUs that the node offers. Default: the GPUs of this machine that "
            "the command may use.",
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
            help="Labels of the node, as KEY=VALUE, separated by commas: rack=r1,zone=a.",
        ),
    ] = None,
    object_store_memory: Annotated[
        int | None,
        Option(
            parser=memory_bytes,
            metavar="MEMORY",
            rich_help_panel=panels.RESOURCES,
            help="Size of the node's object store, such as 8GiB or 8e9 (bytes). Default: 30% of "
            "free memory, but at most the free part of /dev/shm.",
        ),
    ] = None,
    topology: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.DEVICES,
            help="Model of this machine, such as dgx_h100, which determines how its GPUs are "
            "connected. Default: the node detects the connections.",
        ),
    ] = None,
    ports: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.NODE,
            help="TCP ports that gangs may use on the node, such as '20000-20999,8080'. If "
            "the option is not given, these are the ports 20000-32000.",
        ),
    ] = None,
    devices: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.DEVICES,
            help="File from which the node reads the state of its GPUs, instead of NVIDIA's "
            "driver; see docs/howto/health.md.",
        ),
    ] = None,
    check: Annotated[
        list[str] | None,
        Option(
            rich_help_panel=panels.CHECKS,
            help="Health check of the node, as NAME=COMMAND. The command's exit code is the "
            "result: 0 (the node is healthy), 1 (suspect) or 2 (bad; the node gets no new "
            "work). See docs/howto/health.md. May be repeated.",
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
            help="Largest number of requests for workers (leases) that may wait on this node. The "
            "node passes further requests on to other nodes. Default: 0.",
        ),
    ] = None,
    patience: Annotated[
        float | None,
        Option(
            parser=seconds_at_least(1),
            metavar=METAVAR,
            rich_help_panel=panels.NODE,
            help="Time that the node waits for a lost head before it ends: 90s, 15m or 90 "
            "(seconds). A node on which work runs waits without limit. A node on which nothing "
            "runs, but whose resources a job holds, waits at least a day. Default: 60s.",
        ),
    ] = None,
    gpu_resource: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.DEVICES,
            help="With --address ray:auto: name of the Ray resource from which gangs get their "
            "GPUs. Default: GPU.",
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
            help="Let other users of this machine submit jobs, to queues that name these users; "
            "see docs/howto/people.md.",
        ),
    ] = False,
    group: Annotated[
        str | None,
        Option(
            rich_help_panel=panels.HEAD,
            help="With --shared: Unix group whose accounts may connect to the head. Default: all "
            "accounts.",
        ),
    ] = None,
    system: Annotated[
        bool,
        Option(
            "--system",
            rich_help_panel=panels.NODE,
            help="Run each job under the account of its submitter. Root cannot use this option; "
            "with --head, it needs --shared. The program "
            "phalanx-launch, which has root's rights, must be installed (`phalanx install "
            "--system --launch --apply`); see docs/howto/people.md.",
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

    Options that are not given come from variables such as PHALANX_START_NUM_CPUS,
    then from ~/.phalanx/config.toml, then from /etc/phalanx/config.toml
    (`phalanx config show`).

    Exit 2: wrong usage. Exit 4: wrong token.
    """
    given = locals()
    with failing_readably():
        found = settle("start", given, read_sources(os.environ))
        options = values.StartOptions(**{name: one.value for name, one in found.items()})
    _start(options)


def _start(options: values.StartOptions) -> None:
    address = options.address
    if options.head == (address is not None):
        fail("Give either --head, to start a cluster, or --address HOST:PORT, to join one.", USAGE)
    if address is not None and (engine := engines.engine_of(address)) is not None:
        with failing_readably():
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
            "--no-node, --store, --standby, --accept-loss, --limit, --history, --system-config, "
            "--placement, --shared and --group"
        )
        fail(f"{belong} are only for --head.", USAGE)
    if options.group and not options.shared:
        fail("--group is only for --shared: it names the accounts that share the head.", USAGE)
    if options.system:
        check_system(is_head=address is None, is_shared=options.shared)
    with failing_readably():
        # The daemons of --block end with this process, also when it is killed.
        parent_fd, kept_open = os.pipe() if options.block else (-1, -1)
        run = start_head if address is None else join
        started = run(options, parent_fd)
    if options.block:
        from phalanx.runtime.daemons.blocking import stay

        ended = stay(started)
        os.close(kept_open)
        if ended is not None:
            fail(f"The {ended.announcement.kind} has ended by itself: see {ended.log_path}.")
