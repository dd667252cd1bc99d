"""Volcano's job plugins: their names and arguments, and the plugins on which they depend."""

from __future__ import annotations

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


def read_plugins(at: Fields) -> Plugins:
    """Return the plugins of a job: pairs of a name and its arguments, in the manifest's order."""
    inner = at.fields("plugins")
    found = []
    for name in inner.known:
        if name not in OPTIONS:
            reason = f"there is no job plugin {name!r}; known plugins: {', '.join(OPTIONS)}"
            inner.error(name, "unknown_plugin", reason)
            inner.raw(name)
            continue
        arguments = inner.texts(name)
        for i, argument in enumerate(arguments):
            key, _, value = argument.lstrip("-").partition("=")
            if key not in OPTIONS[name]:
                reason = (
                    f"{argument!r} is not an argument of {name}; known: {', '.join(OPTIONS[name])}"
                )
                inner.warn((name, i), "unknown_argument", reason)
            elif key.lower().endswith("port") and not value.isdecimal():
                reason = f"{key} must be a port's number, not {value!r}"
                inner.error((name, i), "port_invalid", reason)
        found.append((name, arguments))
    if "ssh" in inner.known:
        reason = "no keys are made: members run as one user, with the access that user has"
        inner.warn("ssh", "no_meaning_here", reason)
    if "hcclrank" in inner.known:
        inner.warn("hcclrank", "no_meaning_here", "RANK is set for every member")
    return tuple(found)


def complete(plugins: Plugins) -> Plugins:
    """Return the plugins together with those on which they depend."""
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
        key, equals, value = argument.lstrip("-").partition("=")
        given[key] = value if equals else "true"
    return given
