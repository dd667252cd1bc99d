"""Pure functions that write the text of each unit of systemd."""

from __future__ import annotations

from typing import NamedTuple

HEAD, NODE, DASHBOARD, LAUNCH, JOBS = "head", "node", "dashboard", "launch", "jobs"
ACCOUNT = "phalanx"
"""The account of the services of a machine."""
HOME = "/var/lib/phalanx"
LAUNCH_PROGRAM = "/usr/local/sbin/phalanx-launch"
LAUNCH_KEY = "/etc/phalanx/launch.pub"
JOBS_GROUP = "/sys/fs/cgroup/system.slice/phalanx-jobs.service"
"""The control group of the unit `JOBS`."""

_OF_HEAD = ("start", "--head", "--no-node", "--block")
_OF_NODE_HERE = ("start", "--address", "auto", "--block")
_OF_NODE = ("start", "--block")
_OF_DASHBOARD = ("dashboard", "--block")

_DESCRIPTION = {
    HEAD: "Head of the Phalanx cluster",
    NODE: "Node of a Phalanx cluster",
    DASHBOARD: "Web page of the Phalanx cluster",
}


class Service(NamedTuple):
    """The properties in which installations differ."""

    python: str
    """The path of the Python in which Phalanx is installed."""
    is_system: bool
    """Whether these are services of the machine, and not of a user."""
    is_head_here: bool
    """Whether the head is a service of this machine. The other parts then wait for it."""


def unit_name(part: str) -> str:
    """Return the name of the unit of a part (HEAD, NODE and so on)."""
    return f"phalanx-{part}.service"


def command(part: str, service: Service) -> tuple[str, ...]:
    """Return the command line, as words, that the unit of a part runs."""
    of_node = _OF_NODE_HERE if service.is_head_here else _OF_NODE
    words = {HEAD: _OF_HEAD, NODE: of_node, DASHBOARD: _OF_DASHBOARD}[part]
    return (service.python, "-m", "phalanx", *words)


def unit(part: str, service: Service) -> str:
    """Return the text of the unit of a part."""
    lines = ["[Unit]", f"Description={_DESCRIPTION[part]}"]
    if service.is_system:
        lines += ["Wants=network-online.target", "After=network-online.target"]
    if service.is_head_here and part != HEAD:
        lines += [f"Wants={unit_name(HEAD)}", f"After={unit_name(HEAD)}"]
    if part == DASHBOARD:
        lines.append(f"After={unit_name(NODE)}")
    lines += [
        "# A part tries again until the others are there.",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=notify",
        f"ExecStart={' '.join(map(_quoted, command(part, service)))}",
        "Restart=on-failure",
        "RestartSec=5",
        "# The first process ends its daemons in order; systemd kills what is left.",
        "KillMode=mixed",
        "TimeoutStartSec=180",
        "TimeoutStopSec=120",
    ]
    if service.is_system:
        lines += _of_system()
    if part == NODE:
        lines += [
            "# Each job gets a control group below the one of the node.",
            "Delegate=yes",
            "TasksMax=infinity",
        ]
        if service.is_system:
            lines += ["LimitNOFILE=1048576", "LimitMEMLOCK=infinity"]
    target = "multi-user.target" if service.is_system else "default.target"
    return "\n".join([*lines, "", "[Install]", f"WantedBy={target}", ""])


def launch_unit(service: Service) -> str:
    """Return the text of the unit of phalanx-launch, which runs as root and starts jobs as their
    submitters.
    """
    words = (
        *("/usr/bin/python3", "-I", "-S", LAUNCH_PROGRAM, "--user", ACCOUNT),
        *("--key", LAUNCH_KEY, "--python", service.python, "--groups", JOBS_GROUP),
    )
    lines = [
        "[Unit]",
        "Description=Starter of people's jobs for the Phalanx node",
        f"Before={unit_name(NODE)}",
        f"Requires={unit_name(JOBS)}",
        f"After={unit_name(JOBS)}",
        f"ConditionPathExists={LAUNCH_KEY}",
        "",
        "[Service]",
        f"ExecStart={' '.join(map(_quoted, words))}",
        "Restart=on-failure",
        "RestartSec=5",
        "# Exit 2: files or options that root must change first.",
        "RestartPreventExitStatus=2",
        "# A restart ends no jobs.",
        "KillMode=process",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
        "",
    ]
    return "\n".join(lines)


def jobs_unit() -> str:
    """Return the text of the unit whose control group contains the control groups of all accounts.

    This is a unit of its own because systemd cannot start phalanx-launch again while control groups
    with limits are below the control group of phalanx-launch.
    """
    lines = [
        "[Unit]",
        "Description=Control groups of people's jobs",
        "",
        "[Service]",
        "# The end of this unit ends all jobs, so nothing restarts it.",
        "ExecStart=/bin/sleep infinity",
        "Delegate=yes",
        "TasksMax=infinity",
        "LimitMEMLOCK=infinity",
        "LimitNOFILE=1048576",
        "",
    ]
    return "\n".join(lines)


def _of_system() -> list[str]:
    return [
        f"User={ACCOUNT}",
        f"Group={ACCOUNT}",
        f"WorkingDirectory={HOME}",
        "# For the sockets of a shared head, and for the daemons' own.",
        "RuntimeDirectory=phalanx phalanx-daemons",
        "RuntimeDirectoryPreserve=yes",
        "Environment=PHALANX_SHARED_DIR=/run/phalanx",
        "Environment=XDG_RUNTIME_DIR=/run/phalanx-daemons",
    ]


def _quoted(word: str) -> str:
    """Quote a word for ExecStart; see systemd.service(5)."""
    plain = word.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$")
    return f'"{plain}"' if " " in word or '"' in word else plain
