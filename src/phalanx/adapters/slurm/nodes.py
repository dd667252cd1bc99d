"""Translates options that choose nodes into node affinity terms of members.

The options are `--constraint`, `--nodelist`, `--exclude`, and the type of `--gres=gpu:TYPE`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from phalanx.adapters.slurm.options import OptionError
from phalanx.model.gpu_sharing import PROFILE

HOSTNAME = "kubernetes.io/hostname"
GPU_TYPE = "ray.io/accelerator-type"
_FEATURE = re.compile(r"([A-Za-z0-9_./-]{1,100})(?:=([A-Za-z0-9_.-]{1,63}))?")
_PERCENT = 100
_MOST_SHARDS = 10_000
_PROFILE = r"(?:mig-)?([0-9]g\.[0-9]{1,4}gb(?:\.me)?)"
_TYPED = re.compile(rf"(?:({_PROFILE}|[A-Za-z][A-Za-z0-9_.-]*):)?([0-9]{{1,7}})")


def typed_count(option: str, given: str) -> tuple[str, int]:
    """Return the type ("": any) and the number of `--gpus=TYPE:N`. Raises OptionError."""
    return _typed(given, f"--{option}={given}: it takes N or TYPE:N, such as a100:2")


def _typed(count: str, trouble: str) -> tuple[str, int]:
    """Return the type and the number of `TYPE:N` or `N`. For a profile of split GPUs (MIG), the
    type is the name of the resource with that profile. Raises OptionError with the text `trouble`.
    """
    match = _TYPED.fullmatch(count)
    if match is None:
        raise OptionError(trouble)
    kind, profile, number = match.groups()
    return PROFILE + profile if profile else kind or "", int(number)


def gres_count(given: str) -> tuple[str, int]:
    """Return the type and the number of `--gres=gpu[:TYPE][:N]`. Raises OptionError for other
    values.
    """
    kind, *rest = given.removeprefix("gres/").replace("=", ":").split(":")
    if kind != "gpu" or "," in given or len(rest) > 2:
        raise OptionError(f"--gres={given}: only gpu[:TYPE][:N], shard:N and mps:N are supported")
    if rest and not rest[-1].isdecimal():
        rest.append("1")
    trouble = f"--gres={given}: it takes gpu:N or gpu:TYPE:N, such as gpu:a100:2"
    return _typed(":".join(rest) or "1", trouble)


def shared_gpu(given: str) -> dict[str, Any]:
    """Return the fields of a job for `--gres=shard:N` or `--gres=mps:N`; empty for other values.

    A shard is one GiB of a GPU's memory here. `mps:N` is N percent of a GPU, which is shared by
    MPS. Raises OptionError.
    """
    kind, _, count = given.removeprefix("gres/").replace("=", ":").partition(":")
    if kind not in ("shard", "mps"):
        return {}
    if not count.isdecimal() or not 0 < int(count) < _MOST_SHARDS:
        raise OptionError(f"--gres={given}: it takes {kind}:N with a whole number of at least 1")
    if kind == "shard":
        return {"gpu_memory": f"{int(count)}GiB"}
    if int(count) >= _PERCENT:
        raise OptionError(f"--gres={given}: N is below 100 percent of one GPU; use gpu:N for more")
    return {"num_gpus": int(count) / _PERCENT, "gpu_share": "mps"}


def gpu_fields(asked: Mapping[str, str], gpus: float) -> dict[str, Any]:
    """Return the fields of a job that has this number of GPUs, or shares one. Raises
    OptionError.
    """
    if shared := shared_gpu(asked.get("gres", "")):
        return shared
    kind = gpu_type_of(asked)
    return {"resources": {kind: gpus}} if kind.startswith(PROFILE) else {"num_gpus": gpus}


def gpu_type_of(asked: Mapping[str, str]) -> str:
    """Return the type of GPU that the options name; "" for any type. Raises OptionError if they
    name several types.
    """
    found = set()
    for name in ("gres", "gpus", "gpus-per-node", "gpus-per-task"):
        given = asked.get(name, "none")
        if given.lower() != "none":
            if name == "gres" and shared_gpu(given):
                continue
            found.add(gres_count(given)[0] if name == "gres" else typed_count(name, given)[0])
    found.discard("")
    if len(found) > 1:
        raise OptionError(f"a job has GPUs of one type, not of {' and '.join(sorted(found))}")
    return next(iter(found), "")


def choice_of(asked: Mapping[str, str], hosts: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the terms of a nodeAffinity. A node must match one of the terms; an empty list allows
    any node.

    `hosts`: host names by address. Host lists in `asked` are already expanded. Raises OptionError
    for a value that cannot be read.
    """
    shared: list[dict[str, Any]] = []
    for option, operator in (("nodelist", "In"), ("exclude", "NotIn")):
        if option in asked:
            names = [hosts.get(one, one) for one in asked[option].split(",") if one]
            shared.append(_term(HOSTNAME, operator, names))
    kind = gpu_type_of(asked)
    if kind and not kind.startswith(PROFILE):
        shared.append(_term(GPU_TYPE, "In", sorted({kind, kind.upper(), kind.lower()})))
    groups = [_features(part) for part in asked["constraint"].split("|")] if (
        "constraint" in asked
    ) else [[]]  # fmt: skip
    terms = [[*shared, *group] for group in groups]
    return [{"matchExpressions": term} for term in terms] if any(terms) else []


def _features(written: str) -> list[dict[str, Any]]:
    found = []
    for word in re.split(r"[&,]", written):
        match = _FEATURE.fullmatch(word.strip())
        if match is None:
            raise OptionError(
                f"--constraint={written}: labels of nodes, NAME or NAME=VALUE, with & or | "
                f"between them"
            )
        name, value = match.groups()
        found.append(_term(name, "In", [value]) if value else _term(name, "Exists", []))
    return found


def _term(key: str, operator: str, values: Sequence[str]) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
