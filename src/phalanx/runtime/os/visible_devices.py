"""The names of a node's devices, if the node may use only some of the machine's.

The node's environment lists the devices that the node may use. The node's own numbers are positions
in this list. A list that has, or may have, a device twice is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from phalanx.model.accelerators import AMD, AMD_RUNTIME, VISIBLE

CUDA = VISIBLE["GPU"]
_OWN = {VISIBLE[resource]: resource for resource in VISIBLE}
_KIND = re.compile(r"(\d+)\Z|(GPU-|MIG-)\S|[A-Za-z][\w.:/-]*\d", re.ASCII)
"""Matches a device: a number, a UUID, or another name with a digit. Words such as `none` and
`NoDevFiles` name no device.
"""
_RANGE = re.compile(r"(\d{1,5})-(\d{1,5})\Z", re.ASCII)
_MANY = 4096
"""A number that exceeds the number of devices of any machine."""

TRUE = ("1", "true", "True")
_LEAVE = "RAY_EXPERIMENTAL_NOSET_"
"""Ray's prefix for the name of a variable that shows devices. A variable with this prefix says that
the variable without it must not be changed.
"""
_OTHER_NAME = {VISIBLE["RBLN"]: "RBLN_RT_VISIBLE_DEVICES"}
"""Variables for which another name follows Ray's prefix, each with that name."""


def is_left_alone(variable: str) -> bool:
    """Whether this process's environment forbids a change of this variable, which names devices."""
    return os.environ.get(_LEAVE + _OTHER_NAME.get(variable, variable)) in TRUE


def variables_of(resource: str, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables by which a node with these `variables` shows devices of `resource` to
    programs.
    """
    more = (AMD,) if resource == "GPU" and AMD in variables else ()
    return (VISIBLE[resource], *more)


def shown_by(resource: str, variables: Mapping[str, str]) -> str | None:
    """Return the list of devices that were shown to a node with these `variables`; None for all
    devices.
    """
    return next(
        (variables[name] for name in variables_of(resource, variables) if name in variables), None
    )


def shown_devices(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the lists of devices that were shown to a node with these `variables`, by resource."""
    lists = {resource: shown_by(resource, variables) for resource in VISIBLE}
    return {resource: shown for resource, shown in lists.items() if shown is not None}


def named_devices(shown: str | None, numbers: Sequence[int], variable: str = CUDA) -> str:
    """Return the value of `variable` that shows the devices with the node's `numbers`.

    `shown`: the node's value of the variable. The numbers are positions in it, and its entries may
    be UUIDs. A number beyond its end is no device of the node, and is left out.
    """
    if shown is None:
        return ",".join(map(str, numbers))
    names = _names(variable, shown)
    return ",".join(names[n] for n in numbers if n < len(names))


def of_command(variables: dict[str, str], node: Mapping[str, str]) -> dict[str, str]:
    """Return a command's variables with the devices' names in place of the node's own numbers.

    `node`: the variables of the node.
    """
    named: dict[str, str] = {}
    for resource, own in VISIBLE.items():
        if own not in variables or (shown := shown_by(resource, node)) is None:
            continue
        words = [word for word in variables[own].split(",") if word]
        if all(word.isdecimal() for word in words):
            held = named_devices(shown, [int(word) for word in words], own)
            named |= dict.fromkeys(variables_of(resource, node), held)
    return variables | named


def check_devices(resources: Mapping[str, float], variables: Mapping[str, str]) -> None:
    """Raise ValueError if `resources` has more devices of a kind than a node with these
    `variables` can hand out.
    """
    for resource in VISIBLE:
        if not (wanted := resources.get(resource, 0)):
            continue
        for name in (*variables_of(resource, variables), *_beneath(resource)):
            if name not in variables:
                continue
            names = _listed(name, variables[name])
            if wanted > len(names):
                raise ValueError(
                    f"this node cannot have {wanted:g} of {resource}: {name}={variables[name]} "
                    f"shows it {len(names)}. Give the node {len(names)} at most, or unset {name}."
                )
        _check_agreement(resource, variables)


def device_limits(variables: Mapping[str, str]) -> dict[str, int]:
    """Return, by resource, the largest number of devices that a node with these `variables` can
    have.

    A resource of which all devices are shown has no limit.
    """
    limits: dict[str, int] = {}
    for resource in VISIBLE:
        for name in (*variables_of(resource, variables), *_beneath(resource)):
            if name in variables:
                try:
                    count = len(_listed(name, variables[name]))
                except ValueError:
                    count = 0
                limits[resource] = min(count, limits.get(resource, count))
    return limits


def _beneath(resource: str) -> tuple[str, ...]:
    """Return the variables that a lower layer of the driver reads. The variables of
    `variables_of` can select only devices that these show.
    """
    return (AMD_RUNTIME,) if resource == "GPU" else ()


def _names(variable: str, text: str) -> list[str]:
    """Return the devices in a list. As in a driver, the list ends at the first entry that names no
    device.
    """
    names: list[str] = []
    for entry in (part.strip() for part in text.split(",")):
        span = _RANGE.match(entry) if _OWN.get(variable) == "neuron_cores" else None
        if span is not None:
            first, last = int(span[1]), int(span[2])
            names += map(str, range(first, min(last, first + _MANY) + 1))
        elif (kind := _KIND.match(entry)) is None:
            break
        else:
            names.append(str(int(entry)) if kind[1] else entry)
    return names


def _listed(variable: str, text: str) -> list[str]:
    """Return the devices in a list. Raises ValueError if the list may name a device twice."""
    names = _names(variable, text)
    kinds = {_form_of(name) for name in names}
    if len(kinds) > 1:
        raise ValueError(
            f"{variable}={text} names devices in more than one form ({', '.join(sorted(kinds))}), "
            "so that two entries may be one device. Use one form."
        )
    alike = sorted(name.lower() for name in names)
    for one, other in pairwise(alike):
        # A UUID may be cut to its beginning; a number may not.
        if one == other or (not one.isdecimal() and other.startswith(one)):
            raise ValueError(f"{variable}={text} lists a device twice: {other}")
    return names


def _form_of(name: str) -> str:
    if name.isdecimal():
        return "a number"
    return name[:4] if name.startswith(("GPU-", "MIG-")) else "a name"


def _check_agreement(resource: str, variables: Mapping[str, str]) -> None:
    lists = {
        name: _names(name, variables[name])
        for name in variables_of(resource, variables)
        if name in variables
    }
    if len({tuple(names) for names in lists.values()}) > 1:
        said = " and ".join(f"{name}={variables[name]}" for name in lists)
        raise ValueError(
            f"{said} show different devices. Set one of the two, or give both the same list."
        )
