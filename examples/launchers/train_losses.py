"""The same training under torchrun and as a gang: every rank prints its environment and its losses.

pip install torch
torchrun --nproc-per-node 4 examples/launchers/train_losses.py
phalanx run --gang 4 -- python examples/launchers/train_losses.py
"""

from __future__ import annotations

import os

try:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.elastic.multiprocessing.errors import record
    from torch.nn.parallel import DistributedDataParallel
except ModuleNotFoundError as error:
    raise SystemExit(f"This example needs {error.name}: pip install torch") from None

STEPS = 5
SHOWN = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT"),
    *("TORCHELASTIC_MAX_RESTARTS", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
)
"""The variables to print: those that are the same under torchrun and in a gang. Addresses, ports,
files and names of runs differ.
"""


@record
def train() -> None:
    """Fit a line to this rank's points. All ranks share their gradients after each step."""
    rank = dist.get_rank()
    found = " ".join(f"{name}={os.environ.get(name)}" for name in SHOWN)
    print(f"rank {rank}: {found} elastic={dist.is_torchelastic_launched()}\n", end="", flush=True)
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    points = torch.randn(64, 4, generator=torch.Generator().manual_seed(rank))
    wanted = points.sum(1, keepdim=True)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(points), wanted)
        loss.backward()
        optimizer.step()
        print(f"rank {rank}: step {step} loss {loss.item():.6f}\n", end="", flush=True)
    if os.environ.get("FAIL_ON") == str(rank):
        raise ValueError(f"rank {rank} was told to fail")


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train()
    dist.destroy_process_group()
