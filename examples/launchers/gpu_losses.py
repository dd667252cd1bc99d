"""Data-parallel training on GPUs: every rank prints its device, its last loss, and a sum of all.

    pip install torch
    phalanx run --gang 8 --gpus 1 -- python examples/launchers/gpu_losses.py
    phalanx run --gang 2 --gpus 0.5 -- python examples/launchers/gpu_losses.py gloo

NCCL needs a device for each rank; ranks that share a device use gloo.
"""

from __future__ import annotations

import os
import sys

try:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
except ModuleNotFoundError as error:
    raise SystemExit(f"This example needs {error.name}: pip install torch") from None

STEPS = 200


def train() -> None:
    """Fit a line to this rank's points. All ranks share their gradients after each step."""
    rank, size = dist.get_rank(), dist.get_world_size()
    # A member of a gang sees only its own devices; under torchrun, ranks see all of the node.
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Linear(64, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    points = torch.randn(256, 64, generator=torch.Generator().manual_seed(rank)).to(device)
    wanted = points.sum(1, keepdim=True)
    loss = wanted
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(points), wanted)
        loss.backward()
        optimizer.step()
    total = torch.tensor([rank + 1.0], device=device)
    dist.all_reduce(total)
    name, shown = torch.cuda.get_device_name(device), os.environ.get("CUDA_VISIBLE_DEVICES")
    print(
        f"rank {rank} of {size} on {name} (CUDA_VISIBLE_DEVICES={shown}): "
        f"loss {loss.item():.6f}, sum of all ranks {total.item():g}",
        flush=True,
    )


if __name__ == "__main__":
    dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "nccl")
    train()
    dist.destroy_process_group()
