"""The options of tasks, actors and methods: one table, checked at the call.

Keys, defaults and classes of errors are Ray's: an unknown key or a wrong value raises a ValueError,
and a wrong type a TypeError. The keys `queue`, `priority` and `timeout_s` are Phalanx's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

import msgspec

from phalanx.model.gpu_sharing import (
    MODES,
    SIZES,
    TERMS,
    read_gpu_memory,
    sharing_amounts,
    with_devices_of_profiles,
)
from phalanx.model.nearest import nearest

MIN_SHARE = 0.0001
LARGEST_AMOUNT = 9e14
"""The largest amount of any resource. Sums of larger amounts, in units of 1/10000, would not fit in
64 bits.
"""
MOST_DEVICES = 65_536
"""The most devices of one kind on one node. A node keeps a record of each of its devices."""
LARGEST_NUMBER = 2**31 - 1
"""The largest priority or weight."""
ACCELERATORS = ("GPU", "TPU", "neuron_cores", "HPU", "NPU", "RBLN")
"""Resources whose units are devices: a request is for part of one device, or for whole devices."""
DEFAULT_RETRIES = 3
"""The retries of a task without `max_retries`."""
Check = Callable[[Any], str | None]
"""A check of a value, which returns None for an allowed value, and otherwise a description of the
allowed values.
"""


class WrongType(str):
    """The description that a check returns if the value has a wrong type, so that a TypeError is
    raised.
    """

    __slots__ = ()


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One key of the options: the types of its value, a check of the value, and the kinds of work
    that may have it.
    """

    types: tuple[type, ...] = ()
    check: Check | None = None
    decorator_only: bool = False


# ---- checks --------------------------------------------------------------------------------------
# Each check gets the value of one option. It returns None if the value is right, and otherwise a
# description of the allowed values (see `Check`), which the error quotes after "only accepts".


def _at_least(low: float) -> Check:
    return lambda v: None if low <= v < 2**63 else f"a whole number from {low:g} to 2^63"


def _amount(value: float) -> str | None:
    if LARGEST_AMOUNT < value < float("inf"):
        return f"a number of at most {LARGEST_AMOUNT:g}"
    return None if 0 <= value <= LARGEST_AMOUNT else "a finite number of at least 0"


def _count(value: int) -> str | None:
    good = abs(value) <= LARGEST_NUMBER
    return None if good else f"a whole number from -{LARGEST_NUMBER} to {LARGEST_NUMBER}"


def _is_too_fine(value: float) -> bool:
    return 0 < value < MIN_SHARE


def _count_from_zero(value: int) -> str | None:
    return None if value >= 0 else "None, 0 or a positive integer"


def _count_or_endless(value: int) -> str | None:
    allowed = "None, 0, -1 or a positive integer, where -1 represents infinity."
    return None if -1 <= value < 2**63 else allowed


def amount_fault(resource: str, value: float) -> str | None:
    """Return None if a request for this amount of a resource is allowed, and otherwise a
    description of the allowed amounts.
    """
    if (allowed := _amount(value)) is not None:
        return allowed
    if resource != "memory" and _is_too_fine(value):
        return f"0 or at least {MIN_SHARE}, the smallest share"
    if resource in ACCELERATORS and value > 1 and value != int(value):
        return "a share below 1, or a whole number"
    return None


def check_amounts(amounts: Mapping[str, float]) -> None:
    """Raise ValueError for an amount that no request may have."""
    for resource, amount in amounts.items():
        if (allowed := amount_fault(resource, amount)) is not None:
            raise ValueError(f"{amount:.15g} of {resource[:100]!a} is not an amount: {allowed} is")


def _resources(value: Mapping[Any, Any]) -> str | None:
    for key, amount in value.items():
        if not isinstance(key, str):
            return "a dict whose keys are strings"
        if key in ("CPU", "GPU"):
            return f"custom resources only; use num_{key.lower()}s for {key}"
        if key in ("memory", "object_store_memory") or key in TERMS:
            return f"custom resources only; use the option {key} for {key}"
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            return WrongType("a dict whose values are numbers")
        if bad := _amount(amount):
            return f"for {key!r} {bad}"
    return None


def _num_returns(value: Any) -> str | None:
    if value in ("dynamic", "streaming"):
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return None
    allowed = "None, a non-negative integer, 'streaming' (for generators), or 'dynamic'"
    return WrongType(allowed) if isinstance(value, str) else allowed


def _retry_exceptions(value: Any) -> str | None:
    if isinstance(value, bool):
        return None
    ok = all(isinstance(e, type) and issubclass(e, BaseException) for e in value)
    return None if ok else "a bool or a list of exception classes"


def _lifetime(value: str) -> str | None:
    return None if value in ("detached", "non_detached") else "'detached' or 'non_detached'"


def _concurrency_groups(value: Mapping[str, int]) -> str | None:
    ok = all(isinstance(k, str) and isinstance(v, int) and v > 0 for k, v in value.items())
    return None if ok else "a dict from group name to a positive number of calls"


def _name(value: str) -> str | None:
    return None if value else "a string that is not empty"


def _strategy(value: Any) -> str | None:
    allowed = "'DEFAULT', 'SPREAD' or a strategy object"
    if isinstance(value, str):
        return None if value in ("DEFAULT", "SPREAD") else allowed
    return None if hasattr(value, "to_wire") else WrongType(allowed)


def _group(value: Any) -> str | None:
    if value == "default" or hasattr(value, "as_strategy"):
        return None
    return WrongType("a placement group or 'default'")


def _selector(value: Mapping[Any, Any]) -> str | None:
    for key, term in value.items():
        if not isinstance(key, str) or not isinstance(term, str):
            return WrongType("a dict from label to condition, both strings")
        if not key:
            return "labels whose names are not empty"
    return None


def _fallback(value: list[Any]) -> str | None:
    for entry in value:
        if not isinstance(entry, dict) or set(entry) != {"label_selector"}:
            return "a list of {'label_selector': {...}}"
        if bad := _selector(entry["label_selector"]):
            return bad
    return None


def _texts(value: Mapping[Any, Any]) -> str | None:
    ok = all(isinstance(k, str) and isinstance(v, str) for k, v in value.items())
    return None if ok else "a dict from string to string"


PROFILE_TOOLS = ("cprofile", "viztracer", "memray", "torch")
"""The names of the profiling tools that `profile` in a runtime environment may name."""


def profile_fault(wanted: Any) -> str | None:
    """Return a description of the fault in the field `profile` of a runtime environment, or None.

    The field is the name of a tool, or a mapping with `tool` and optionally `directory`.
    """
    if wanted is None:
        return None
    given = {"tool": wanted} if isinstance(wanted, str) else wanted
    if (
        not isinstance(given, Mapping)
        or given.get("tool") not in PROFILE_TOOLS
        or not set(given) <= {"tool", "directory"}
        or not isinstance(given.get("directory", ""), str)
    ):
        tools = ", ".join(PROFILE_TOOLS)
        return f"a profile that is one of {tools}, or {{'tool': one, 'directory': where to}}"
    return None


def _environment(value: Mapping[str, Any]) -> str | None:
    if (fault := profile_fault(value.get("profile"))) is not None:
        return fault
    for field, is_good, allowed in _FIELDS:
        given = value.get(field)
        if given is not None and not is_good(given):
            return WrongType(f"{field} that is {allowed}")
    return None


def names_variables(names: Iterable[str]) -> bool:
    """Whether a process may have environment variables of these names."""
    return all(name and "=" not in name and "\0" not in name for name in names)


def _are_variables(value: Any) -> bool:
    return isinstance(value, dict) and not _texts(value) and names_variables(value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_path(value: Any) -> bool:
    return isinstance(value, str) or hasattr(value, "__fspath__")


def _is_software(value: Any) -> bool:
    return isinstance(value, str | list | tuple | Mapping)


def _are_modules(value: Any) -> bool:
    return isinstance(value, list) and all(_is_path(x) or isinstance(x, ModuleType) for x in value)


def _is_configuration(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and type(value.get("setup_timeout_seconds", 0)) is int
        and isinstance(value.get("eager_install", True), bool)
    )


_FIELDS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (
        "env_vars",
        _are_variables,
        "a dict from string to string, whose names are not empty and have no '='",
    ),
    ("pip", _is_software, "a list of packages, a path, or a dict"),
    ("uv", _is_software, "a list of packages, a path, or a dict"),
    ("conda", _is_software, "a name, a path, or a dict"),
    ("image_uri", lambda value: isinstance(value, str), "the name of an image"),
    ("container", lambda value: isinstance(value, Mapping), "a dict with the image"),
    ("working_dir", _is_path, "a path"),
    ("py_modules", _are_modules, "a list of paths and modules"),
    ("excludes", _are_texts, "a list of strings"),
    (
        "config",
        _is_configuration,
        "a dict; setup_timeout_seconds in it is a whole number, and eager_install a bool",
    ),
    (
        "worker_process_setup_hook",
        lambda value: isinstance(value, str) or callable(value),
        "a function, or its name as 'package.module.name'",
    ),
)
"""The fields of a runtime environment, each as (name, check, description of the allowed values)."""


def _gpu_memory(value: Any) -> str | None:
    try:
        read_gpu_memory(value)
    except ValueError:
        return f"an amount of GPU memory such as {SIZES}"
    return None


def _gpu_share(value: str) -> str | None:
    return None if value in MODES else " or ".join(map(repr, MODES))


_NUMBER = (int, float)
_COMMON: dict[str, Option] = {
    "num_cpus": Option(types=_NUMBER, check=_amount),
    "num_gpus": Option(types=_NUMBER, check=_amount),
    "gpu_memory": Option(types=(*_NUMBER, str), check=_gpu_memory),
    "gpu_memory_limit": Option(types=(*_NUMBER, str), check=_gpu_memory),
    "gpu_share": Option(types=(str,), check=_gpu_share),
    "gpu_compute": Option(
        types=_NUMBER, check=lambda v: None if 0 < v <= 1 else "a number above 0 and at most 1"
    ),
    "memory": Option(types=_NUMBER, check=_amount),
    "resources": Option(types=(dict,), check=_resources),
    "accelerator_type": Option(types=(str,)),
    "label_selector": Option(types=(dict,), check=_selector),
    "fallback_strategy": Option(types=(list,), check=_fallback),
    "scheduling_strategy": Option(check=_strategy),
    "placement_group": Option(check=_group),
    "placement_group_bundle_index": Option(types=(int,)),
    "placement_group_capture_child_tasks": Option(types=(bool,)),
    "runtime_env": Option(types=(dict,), check=_environment),
    "name": Option(types=(str,)),
    "enable_task_events": Option(types=(bool,)),
    "_labels": Option(types=(dict,), check=_texts),
    "_metadata": Option(types=(dict,)),
    "queue": Option(types=(str,), check=_name),
    "priority": Option(types=(int,), check=_count),
}
_RETRY = Option(types=(bool, list, tuple), check=_retry_exceptions)
_BACKPRESSURE = Option(
    types=(int,),
    check=lambda v: None if v == -1 or v > 0 else "-1 (no limit) or a positive number",
)
_TASK: dict[str, Option] = {
    **_COMMON,
    "num_returns": Option(types=(int, str), check=_num_returns),
    "max_retries": Option(types=(int,), check=_count_or_endless),
    "retry_exceptions": _RETRY,
    "max_calls": Option(types=(int,), check=_count_from_zero, decorator_only=True),
    "timeout_s": Option(
        types=_NUMBER, check=lambda v: None if v > 0 else "a number of seconds above 0"
    ),
    "_generator_backpressure_num_objects": _BACKPRESSURE,
}
_ACTOR: dict[str, Option] = {
    **_COMMON,
    "object_store_memory": Option(types=_NUMBER, check=_amount),
    "max_concurrency": Option(types=(int,), check=_at_least(0)),
    "concurrency_groups": Option(types=(dict,), check=_concurrency_groups, decorator_only=True),
    "max_restarts": Option(types=(int,), check=_count_or_endless),
    "max_task_retries": Option(types=(int,), check=_count_or_endless),
    "max_pending_calls": Option(types=(int,), check=_at_least(-1)),
    "lifetime": Option(types=(str,), check=_lifetime),
    "namespace": Option(types=(str,), check=_name),
    "get_if_exists": Option(types=(bool,)),
    "allow_out_of_order_execution": Option(types=(bool,)),
    "enable_tensor_transport": Option(types=(bool,)),
}
_METHOD: dict[str, Option] = {
    "num_returns": _TASK["num_returns"],
    "name": Option(types=(str,)),
    "concurrency_group": Option(types=(str,)),
    "max_task_retries": Option(types=(int,), check=_count_or_endless),
    "retry_exceptions": _RETRY,
    "enable_task_events": Option(types=(bool,)),
    "_labels": _TASK["_labels"],
    "_generator_backpressure_num_objects": _BACKPRESSURE,
    "tensor_transport": Option(types=(str,)),
}


def check_task_options(options: Mapping[str, Any], *, in_options: bool = False) -> None:
    """Raise TypeError or ValueError for options that a task may not have. `in_options`: the options
    come from `.options()`.
    """
    _check(_TASK, options, "task", in_options)
    _check_precision(options)
    sharing_amounts(options)
    _check_bundle(options)


def check_actor_options(options: Mapping[str, Any], *, in_options: bool = False) -> None:
    """Raise TypeError or ValueError for options that an actor may not have."""
    _check(_ACTOR, options, "actor", in_options)
    if options.get("get_if_exists") and not options.get("name"):
        raise ValueError("get_if_exists=True needs a name: pass name='...' as well.")
    if options.get("name") == "":
        raise ValueError("Actor name cannot be an empty string.")
    if "object_store_memory" in options:
        warn_of_object_store_memory("actors")
    _check_precision(options)
    sharing_amounts(options)
    _check_bundle(options)


def warn_of_object_store_memory(of: str) -> None:
    """Warn of the deprecated option in Ray's words, because programs filter warnings by Ray's
    text.
    """
    warnings.warn(
        f"Setting 'object_store_memory' for {of} is deprecated since it doesn't actually reserve "
        "the required object store memory.",
        DeprecationWarning,
        stacklevel=2,
    )


def check_place(options: Mapping[str, Any]) -> None:
    """Raise ValueError for options that name a placement group twice, both directly and by a
    strategy.
    """
    group = options.get("placement_group")
    if group not in (None, "default") and options.get("scheduling_strategy") is not None:
        raise ValueError(
            "Placement groups should be specified via the scheduling_strategy option. "
            "placement_group= and scheduling_strategy= do not go together."
        )


def _check_bundle(options: Mapping[str, Any]) -> None:
    index = options.get("placement_group_bundle_index")
    if index not in (None, -1) and options.get("placement_group") in (None, "default"):
        raise ValueError(
            "If placement group is not set, the value of placement group bundle index must be -1: "
            f"{index} needs placement_group=, too."
        )


def check_method_options(options: Mapping[str, Any]) -> None:
    """Raise TypeError or ValueError for options that an actor's method may not have."""
    unknown = sorted(set(options) - set(_METHOD))
    if unknown:
        # As for an unknown argument, this is a TypeError, because Ray takes these as keyword
        # arguments.
        raise TypeError(
            f"Invalid option keyword {unknown[0]!r} for methods"
            f"{nearest(unknown[0], _METHOD) or '.'} Valid ones are: {', '.join(_METHOD)}."
        )
    _check(_METHOD, options, "method", False)


def _check(table: Mapping[str, Option], options: Mapping[str, Any], kind: str, late: bool) -> None:
    for key, value in options.items():
        option = table.get(key)
        if option is None:
            hint = nearest(key, table)
            raise ValueError(
                f"Invalid option keyword {key!r} for {kind}s{hint or '.'} "
                f"Valid ones are: {', '.join(table)}."
            )
        if value is None:
            continue
        is_bool_for_number = isinstance(value, bool) and option.types and bool not in option.types
        if option.types and (not isinstance(value, option.types) or is_bool_for_number):
            raise TypeError(
                f"The type of keyword {key!r} must be {(*option.types, type(None))}, but received "
                f"type {type(value)} ({value!r})."
            )
        if option.check is not None and (allowed := option.check(value)):
            error = TypeError if isinstance(allowed, WrongType) else ValueError
            raise error(f"The keyword {key!r} only accepts {allowed} ({value!r} was given).")
        if late and option.decorator_only:
            raise ValueError(
                f"Setting {key!r} is not supported in '.options()'. Give it to the decorator."
            )


def _check_precision(options: Mapping[str, Any]) -> None:
    amounts = {key: options.get(key) or 0 for key in ("num_cpus", "num_gpus")}
    for name, amount in {**amounts, **(options.get("resources") or {})}.items():
        if _is_too_fine(amount):
            raise ValueError(
                f"The precision of the fractional quantity of resource {name} cannot go beyond "
                f"{MIN_SHARE}."
            )


def named_strategy(options: Mapping[str, Any]) -> Any:
    """Return the scheduling strategy in checked options. The options name it directly, or name a
    placement group from which it is made.
    """
    group = options.get("placement_group")
    if group is None or group == "default":
        return options.get("scheduling_strategy")
    return group.as_strategy(
        options.get("placement_group_bundle_index", -1),
        options.get("placement_group_capture_child_tasks"),
    )


def required_resources(options: Mapping[str, Any], *, default_cpus: float) -> dict[str, float]:
    """Return the amounts that a task or actor with these options requests, by resource name.

    Raises ValueError for a fractional number of devices above one, and for options about the
    sharing of GPUs that contradict each other.
    """
    amounts: dict[str, float] = {}
    cpus = options.get("num_cpus")
    amounts["CPU"] = default_cpus if cpus is None else cpus
    amounts.update(sharing_amounts(options))
    if memory := options.get("memory"):
        amounts["memory"] = int(memory)
    amounts.update(options.get("resources") or {})
    amounts = with_devices_of_profiles(amounts)
    if accelerator := options.get("accelerator_type"):
        amounts[f"accelerator_type:{accelerator}"] = 0.001
    for name in ACCELERATORS:
        amount = amounts.get(name, 0)
        if amount > 1 and amount != int(amount):
            raise ValueError(
                f"{name} resource quantities >1 must be whole numbers. The specified quantity "
                f"{amount} is invalid."
            )
    return {name: amount for name, amount in amounts.items() if amount}
