"""Options about the GPUs of each member, and the fields of a job that they set."""

from __future__ import annotations

from typing import Annotated, Any

from phalanx.cli import panels
from phalanx.cli.amounts import member_memory
from phalanx.cli.options import Option
from phalanx.model.gpu_sharing import PROFILE

Gpus = Annotated[
    str,
    Option(
        rich_help_panel=panels.RESOURCES,
        help="Number of GPUs for each member: 2, 0.5 (half of one GPU) or mig-1g.10gb:1 (one MIG "
        "part with the profile 1g.10gb). Default: 0, or 1 with --gpu-memory.",
        show_default=False,
    ),
]
GpuMemory = Annotated[
    str | None,
    Option(
        parser=member_memory,
        metavar="MEMORY",
        rich_help_panel=panels.RESOURCES,
        help="GPU memory for each member on each of its GPUs, such as 20GiB, or a number of bytes; "
        "at least 1MiB. Other work may use the rest of the GPU.",
    ),
]
GpuMemoryLimit = Annotated[
    str | None,
    Option(
        parser=member_memory,
        metavar="MEMORY",
        rich_help_panel=panels.RESOURCES,
        help="Most memory that a member may use on each of its GPUs, such as 24GiB, or a number of "
        "bytes. A member that uses more is ended. Needs --gpu-memory, whose amount is the default.",
    ),
]
GpuShare = Annotated[
    str | None,
    Option(
        rich_help_panel=panels.RESOURCES,
        help="Mode in which members share a GPU: `time` (their kernels take turns; the default) or "
        "`mps` (their kernels run at the same time, through NVIDIA's MPS).",
    ),
]
GpuCompute = Annotated[
    float | None,
    Option(
        rich_help_panel=panels.RESOURCES,
        help="Largest part of a GPU's threads that a member may use: 0.5 is half of them. Needs "
        "`--gpu-share mps`.",
    ),
]


def gpu_fields(gpus: str, **of_memory: Any) -> dict[str, Any]:
    """Return the fields of a job that these options set. Raises ValueError for options that
    contradict each other.
    """
    kind, _, count = gpus.partition(":")
    fields = {f"gpu_{name}": value for name, value in of_memory.items()}
    if not kind.startswith("mig-"):
        return {"num_gpus": _number(gpus), **fields}
    profile = PROFILE + kind.removeprefix("mig-")
    return {"resources": {profile: _number(count or "1")}, **fields}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"--gpus is a number of GPUs, or a profile like mig-1g.10gb:1, not {text!r}"
        ) from None
