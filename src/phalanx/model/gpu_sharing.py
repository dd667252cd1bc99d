"""Terms of a request for a shared GPU: the memory on each card, the limit of that memory, and the
way in which the card is shared.

A request has these terms beside its amounts, under names of their own. The totals of a node have
the same names, each with the largest value that the node can offer. A term is never used up, unlike
an amount.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from phalanx.model.readable import size

GPU = "GPU"
CARDS = "gpu_cards"
"""The number of cards that the work needs, each with the amount `MEMORY`."""
MEMORY = "gpu_memory"
"""Bytes on each card. In a node's totals: the memory of its largest card."""
LIMIT = "gpu_memory_limit"
"""The bytes on each card that the work may use; work that uses more is ended."""
MPS = "gpu_mps"
"""1 if the card is shared by NVIDIA's Multi-Process Service."""
COMPUTE = "gpu_compute"
"""The largest part of a card's threads that the work may use."""
TERMS = frozenset({CARDS, MEMORY, LIMIT, MPS, COMPUTE})
PROFILE = "nvidia.com/mig-"
"""The prefix of the names of resources that count parts of split GPUs (MIG), one resource for each
profile.
"""

TIME, BY_MPS = "time", "mps"
MODES = (TIME, BY_MPS)
"""The ways in which a card is shared. With TIME, the driver runs the processes one after another
for short times. With BY_MPS, the processes' kernels run at the same time.
"""
OPTIONS = ("gpu_memory", "gpu_memory_limit", "gpu_share", "gpu_compute")

_SIZE = re.compile(r"(\d{1,18}(?:\.\d{0,18})?)\s*([kKMGT]i?)?(?:B|bytes)?", re.ASCII)
_STEPS = "kMGT"
NO_MPS = (
    "no node can share GPUs by MPS: that takes nvidia-cuda-mps-control, and jobs that run as the "
    "node's user and not as their submitters"
)
LARGEST_MEMORY = 2**49
"""The most bytes of a card that work may request; more would be above the largest amount of any
resource.
"""
SIZES = "20GiB, 20Gi, 20 GB or a whole number of bytes"


def read_gpu_memory(written: Any) -> int:
    """Return the bytes of a written amount of GPU memory. Raises ValueError that names the allowed
    forms.
    """
    if isinstance(written, int | float) and not isinstance(written, bool):
        if 0 < written <= LARGEST_MEMORY:
            return int(written)
    elif isinstance(written, str) and (found := _SIZE.fullmatch(written.strip())):
        number, unit = found.groups()
        power = _STEPS.index(unit[0].replace("K", "k")) + 1 if unit else 0
        size = int(float(number) * (1024 if unit and unit.endswith("i") else 1000) ** power)
        if 0 < size <= LARGEST_MEMORY:
            return size
    raise ValueError(f"an amount of GPU memory is like {SIZES}, not {written!r}")


def sharing_amounts(options: Mapping[str, Any]) -> dict[str, float]:
    """Return the amounts of GPUs that options request, with the terms of their sharing.

    Reads only `num_gpus`, the options in OPTIONS, and the profiles in `resources`. Raises
    ValueError for options that contradict each other.
    """
    gpus = options.get("num_gpus") or 0
    share = options.get("gpu_share")
    if share is not None and share not in MODES:
        raise ValueError(f"gpu_share is {' or '.join(map(repr, MODES))}, not {share!r}")
    given = [name for name in OPTIONS if options.get(name) is not None]
    if not given:
        return {GPU: gpus} if gpus else {}
    if part := _part_in(options.get("resources") or ()):
        raise ValueError(_shares_part(given[0], part))
    amounts: dict[str, float] = {}
    if options.get("gpu_memory") is not None:
        amounts = _with_memory(options, gpus)
    elif not 0 < gpus < 1:
        raise ValueError(
            f"{given[0]} needs a share of a GPU: give gpu_memory= as well, or num_gpus= below 1; "
            f"whole GPUs are not shared (num_gpus={gpus:g})"
        )
    elif options.get("gpu_memory_limit") is not None:
        raise ValueError(
            "gpu_memory_limit needs gpu_memory: a share of a GPU has that share of its memory"
        )
    else:
        amounts = {GPU: gpus}
    if share == BY_MPS:
        if gpus > 1:
            raise ValueError(
                f"gpu_share='mps' is for one GPU, not {gpus:g}: a process reaches one MPS daemon, "
                "and each card has its own"
            )
        amounts[MPS] = 1.0
    if (compute := options.get("gpu_compute")) is not None:
        if share != BY_MPS:
            raise ValueError("gpu_compute needs gpu_share='mps': only MPS can hold it")
        if not 0 < compute <= 1:
            raise ValueError(f"gpu_compute is a part of a GPU above 0 and at most 1, not {compute}")
        amounts[COMPUTE] = float(compute)
    return amounts


def plain_amounts(amounts: Mapping[str, float]) -> dict[str, float]:
    """Return a node's amounts without the terms of GPU sharing, because terms cannot be added
    up.
    """
    return {name: amount for name, amount in amounts.items() if name not in TERMS}


def amount_text(name: str, amount: float) -> str:
    """Return an amount with its resource, for display: 20.0 GiB of gpu_memory, 2 GPU."""
    return f"{size(amount)} of {name}" if name in (MEMORY, LIMIT) else f"{amount:g} {name}"


def lacking_text(lacking: Mapping[str, float], largest: Mapping[str, float], where: str) -> str:
    """Return why no node can hold a request that names terms. `lacking`: the requested amounts that
    are more than any node has. `where`: the name of a node, such as "the largest node". `largest`:
    the amounts of the same resources on that node.
    """
    if MPS in lacking:
        return NO_MPS
    named = [name for name in lacking if name != CARDS or len(lacking) == 1]  # CARDS repeats GPU
    asks = ", ".join(amount_text(name, lacking[name]) for name in named)
    has = ", ".join(amount_text(name, largest[name]) for name in named)
    return f"it asks for {asks} and {where} has {has}"


def few_cards_text(asked: Mapping[str, float], nodes: Iterable[Sequence[int]], where: str) -> str:
    """Return why no node can hold a request for memory on several cards: too few cards of each node
    are large enough. Return "" if some node has enough such cards.

    `nodes`: for each node, the bytes of each of its GPUs. `where`: the name of the node with the
    most such cards, such as "this node".
    """
    if MEMORY not in asked:
        return ""
    need, wanted = max(asked[MEMORY], asked.get(LIMIT, 0.0)), int(asked.get(CARDS, 1.0))
    largest = max(nodes, key=lambda sizes: sum(one >= need for one in sizes), default=())
    has = sum(one >= need for one in largest)
    if has >= wanted:
        return ""
    counts = Counter(sorted(largest, reverse=True))
    cards = ", ".join(f"{count} with {size(one)}" for one, count in counts.items())
    return (
        f"it asks for {wanted} GPUs with {size(need)} of memory each, and {where} has {has} such "
        f"GPU{'s' * (has != 1)} (its GPUs: {cards or 'none'})"
    )


def with_devices_of_profiles(amounts: Mapping[str, float]) -> dict[str, float]:
    """Return amounts with one GPU added for each part of a split GPU (MIG) that they request by
    profile.

    Raises ValueError for parts of several profiles, for a fraction of a part, and for other GPUs in
    addition to the parts.
    """
    parts = {name: count for name, count in amounts.items() if name.startswith(PROFILE) and count}
    if not parts:
        return dict(amounts)
    if len(parts) > 1:
        raise ValueError(
            f"parts of one profile can be asked for, not of {', '.join(sorted(parts))}"
        )
    ((name, count),) = parts.items()
    if count != int(count):
        raise ValueError(f"{name} is a whole number of parts, not {count:g}")
    if MEMORY in amounts:
        raise ValueError(_shares_part(MEMORY, name))
    if amounts.get(GPU, count) != count:
        raise ValueError(f"other GPUs do not go with {name}: ask for one kind of GPU")
    return {**amounts, GPU: count}


def profiles_in(names: Iterable[str]) -> list[str]:
    """Return, sorted, those of `names` that count parts of split GPUs (MIG)."""
    return sorted(name for name in names if name.startswith(PROFILE))


def _part_in(names: Iterable[str]) -> str:
    return next(iter(profiles_in(names)), "")


def _shares_part(option: str, part: str) -> str:
    return f"{option} does not go with {part}: parts of split GPUs (MIG) are given whole"


def _with_memory(options: Mapping[str, Any], gpus: float) -> dict[str, float]:
    memory = read_gpu_memory(options["gpu_memory"])
    if 0 < gpus < 1:
        raise ValueError(
            f"gpu_memory and num_gpus={gpus:g} both say how much of a GPU: give gpu_memory with a "
            "whole number of GPUs (1 if left out), or num_gpus alone"
        )
    cards = float(gpus or 1)
    amounts = {GPU: cards, CARDS: cards, MEMORY: float(memory)}
    if options.get("gpu_memory_limit") is not None:
        limit = read_gpu_memory(options["gpu_memory_limit"])
        if limit < memory:
            raise ValueError(
                f"gpu_memory_limit={options['gpu_memory_limit']!r} is below "
                f"gpu_memory={options['gpu_memory']!r}"
            )
        amounts[LIMIT] = float(limit)
    return amounts


_VGPU = "volcano.sh/vgpu-"
_VGPU_MEMORY, _VGPU_NUMBER = f"{_VGPU}memory", f"{_VGPU}number"
_KAI_MEMORY, _KAI_SHARE, _KAI_COUNT = "gpu-memory", "gpu-fraction", "gpu-fraction-num-devices"
_MIB = 2**20


def with_foreign_terms(
    amounts: Mapping[str, float], annotations: Mapping[str, str]
) -> dict[str, float]:
    """Return a member's amounts with the terms that a manifest writes under the names of Volcano or
    KAI.

    Volcano has resources: `volcano.sh/vgpu-memory` (MiB) on each of `volcano.sh/vgpu-number` cards.
    KAI has annotations: `gpu-memory` (MiB) or `gpu-fraction`, on each of `gpu-fraction-num-devices`
    cards. Raises ValueError for terms that contradict each other.
    """
    found = {name: amount for name, amount in amounts.items() if not name.startswith(_VGPU)}
    if unread := [
        n for n in amounts if n.startswith(_VGPU) and n not in (_VGPU_MEMORY, _VGPU_NUMBER)
    ]:
        raise ValueError(f"{unread[0]} is not supported here; ask for {_VGPU_MEMORY} (MiB)")
    options: dict[str, Any] = {}
    if len(found) < len(amounts):
        options["num_gpus"] = _whole(_VGPU_NUMBER, amounts.get(_VGPU_NUMBER) or 1)
        if memory := amounts.get(_VGPU_MEMORY):
            options["gpu_memory"] = int(memory * _MIB)
    elif not annotations.keys().isdisjoint((_KAI_MEMORY, _KAI_SHARE)):
        count = _whole(_KAI_COUNT, _number(annotations, _KAI_COUNT, 1))
        options["num_gpus"] = count
        if _KAI_MEMORY in annotations and _KAI_SHARE in annotations:
            raise ValueError(f"{_KAI_MEMORY} and {_KAI_SHARE} both say how much of a GPU")
        if _KAI_MEMORY in annotations:
            options["gpu_memory"] = int(_number(annotations, _KAI_MEMORY) * _MIB)
        elif count != 1:
            raise ValueError(
                f"{_KAI_SHARE} is a share of one GPU here, not of {count:g}; for several GPUs ask "
                f"for {_KAI_MEMORY}"
            )
        else:
            share = options["num_gpus"] = _number(annotations, _KAI_SHARE)
            if share >= 1:
                raise ValueError(
                    f"{_KAI_SHARE} is a share below 1, not {annotations[_KAI_SHARE]!r}; ask for "
                    "whole GPUs by nvidia.com/gpu"
                )
    elif _KAI_COUNT in annotations:
        raise ValueError(f"{_KAI_COUNT} needs {_KAI_MEMORY} or {_KAI_SHARE}")
    if not options:
        return with_devices_of_profiles(found)
    if GPU in found:
        raise ValueError("whole GPUs and memory of GPUs do not go together in one member")
    return with_devices_of_profiles(found | sharing_amounts(options))


def _whole(name: str, count: float) -> float:
    if count != int(count):
        raise ValueError(f"{name} is a whole number, not {count:g}")
    return count


def _number(annotations: Mapping[str, str], name: str, otherwise: float | None = None) -> float:
    written = annotations.get(name)
    if written is None and otherwise is not None:
        return otherwise
    try:
        value = float(written or "")
    except ValueError:
        value = 0.0
    if not 0 < value < 2**40:
        raise ValueError(f"annotation {name} is a number above 0, not {written!r}")
    return value
