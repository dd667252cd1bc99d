"""Volcano's job plugins: their names and arguments, and the plugins on which they depend."""

from __future__ import annotations

from collections.abc import Collection

from phalanx.manifests.fields import Fields

Plugins = tuple[tuple[str, tuple[str, ...]], ...]
Options = dict[str, str]

OPTIONS: dict[str, Options] = {
    "svc": {"publish-not-ready-addresses": "", "disable-network-policy": ""},
    "ssh": {"ssh-key-file-path": "", "ssh-private-key": "", "ssh-public-key": ""},
    "env": {},
    "pytorch": {
        "master": "master",
        "worker": "worker",
        "port": "",
        "wait-master-enabled": "",
        "wait-master-timeout": "300",
        "wait-master-image": "",
    },
    "tensorflow": {
        "ps": "ps",
        "worker": "worker",
        "chief": "chief",
        "evaluator": "evaluator",
        "port": "",
    },
    "mpi": {"master": "master", "worker": "worker", "port": "22"},
    "ray": {
        "head": "head",
        "headContainer": "head",
        "worker": "worker",
        "workerContainer": "worker",
        "port": "",
        "dashboardPort": "",
        "clientPort": "",
    },
    "slurm": {
        "tasks": "",
        "tasks-per-member": "1",
        "cpus-per-member": "",
        "counts": "tasks",
        "script": "",
    },
    "hcclrank": {"master": "master", "worker": "worker"},
}
"""Each plugin's options with their defaults; an empty port means any free port."""

BRINGS = {
    "pytorch": ("svc",),
    "tensorflow": ("svc",),
    "mpi": ("svc", "ssh"),
    "ray": ("svc",),
}

LEADERS = {"mpi": "master", "ray": "head"}
"""For each plugin that needs a leader: the name of the leader's role. A job with the plugin must
have a group for this role.
"""


def read_plugins(at: Fields) -> Plugins:
    """Return the plugins of a job: pairs of a name and its arguments, in the manifest's order."""
    inner = at.fields("plugins")
    found = []
    for name in inner.known:
        if reason := plugin_fault(name):
            inner.error(name, "unknown_plugin", reason)
            inner.raw(name)
            continue
        arguments = inner.texts(name)
        for i, argument in enumerate(arguments):
            key, value = _pair(argument)
            if key not in OPTIONS[name]:
                reason = (
                    f"{argument!r} is not an argument of {name}; known: {', '.join(OPTIONS[name])}"
                )
                inner.warn((name, i), "unknown_argument", reason)
            elif reason := argument_fault(key, value):
                inner.error((name, i), "port_invalid", reason)
        found.append((name, arguments))
    if "ssh" in inner.known:
        reason = "no keys are made: members run as one user, with the access that user has"
        inner.warn("ssh", "no_meaning_here", reason)
    if "hcclrank" in inner.known:
        inner.warn("hcclrank", "no_meaning_here", "RANK is set for every member")
    return tuple(found)


def plugin_fault(name: str) -> str:
    """Return why there is no plugin of this name; "" if there is one."""
    if name in OPTIONS:
        return ""
    return f"there is no job plugin {name!r}; known plugins: {', '.join(OPTIONS)}"


def argument_fault(key: str, value: str) -> str:
    """Return why an option of a plugin cannot have this value; "" for an allowed value."""
    if not key.lower().endswith("port") or value.isdecimal():
        return ""
    return f"{key} must be a port's number, not {value!r}"


def first_fault(plugins: Plugins, groups: Collection[str]) -> str:
    """Return the first reason why a job with these groups cannot have these plugins; "" if it can
    have them.
    """
    for name, arguments in plugins:
        if fault := plugin_fault(name):
            return fault
        for argument in arguments:
            key, value = _pair(argument)
            if key in OPTIONS[name] and (fault := argument_fault(key, value)):
                return fault
        if fault := role_fault(name, arguments, groups)[1]:
            return fault
    return ""


def role_fault(name: str, arguments: tuple[str, ...], groups: Collection[str]) -> tuple[str, str]:
    """Return the role of the group that the plugin needs and a job with these groups lacks, and the
    reason. Return two empty texts if nothing is missing.
    """
    role = LEADERS.get(name)
    wanted = options(name, arguments)[role] if role else ""
    if role is None or wanted in groups:
        return "", ""
    return role, f"the {name} plugin's {role} is task {wanted!r}, which the job does not have"


def complete(plugins: Plugins) -> Plugins:
    """Return the plugins together with the plugins on which they depend."""
    out = dict(plugins)
    for name, _ in plugins:
        for other in BRINGS.get(name, ()):
            out.setdefault(other, ())
    return tuple(out.items())


def options(name: str, arguments: tuple[str, ...]) -> Options:
    """Return a plugin's options from arguments such as `--key=value`, `-key=value` and `--flag`;
    missing options have their defaults.
    """
    given = dict(OPTIONS[name])
    for argument in arguments:
        key, value = _pair(argument)
        given[key] = value if "=" in argument else "true"
    return given


def _pair(argument: str) -> tuple[str, str]:
    key, _, value = argument.lstrip("-").partition("=")
    return key, value
