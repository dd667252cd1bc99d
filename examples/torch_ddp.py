"""Data-parallel training with torch.distributed (gloo), one process for each member of a gang.

    pip install torch scikit-learn
    phalanx run --gang 4 --gpus 1 -- python examples/torch_ddp.py

Every member finds its rank and the rendezvous address in its environment, takes its part of the
digits that come with scikit-learn, and shares its gradients with the others after every step. Rank
0 prints how many unseen digits the model recognizes.
"""

from __future__ import annotations

import os

try:
    import torch
    import torch.distributed as dist
    from sklearn.datasets import load_digits
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split
except ModuleNotFoundError as error:
    raise SystemExit(f"This example needs {error.name}: pip install torch scikit-learn") from None

EPOCHS = 6
BATCH = 16
RATE = 0.005
SEED = 5
TRAINED = 0.8
"""The part of the digits used for training; the others are for the test."""


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Return the digits for training and for the test, the same for every rank."""
    found = load_digits()
    pixels = torch.tensor(found.data / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    everything = TensorDataset(pixels, torch.tensor(found.target))
    count = int(len(everything) * TRAINED)
    parts = random_split(
        everything, [count, len(everything) - count], torch.Generator().manual_seed(SEED)
    )
    train, test = (TensorDataset(*everything[part.indices]) for part in parts)
    return train, test


def network() -> nn.Module:
    """Return a small convolutional network for images of 8 x 8."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip


def accuracy(model: nn.Module, data: TensorDataset) -> float:
    """Return the share of digits that the model recognizes."""
    pixels, labels = data.tensors
    with torch.no_grad():
        return float((model(pixels).argmax(1) == labels).float().mean())


def train() -> None:
    """Train this member's copy of the model. All members share their gradients after each step."""
    rank, size = dist.get_rank(), dist.get_world_size()
    data, test = digits()
    torch.manual_seed(SEED)  # all copies start equal
    model = DistributedDataParallel(network())
    sampler = DistributedSampler(data, shuffle=True, seed=SEED)
    batches = DataLoader(data, batch_size=BATCH, sampler=sampler)
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for pixels, labels in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(pixels), labels).backward()
            optimizer.step()
    weights = torch.cat([one.detach().flatten() for one in model.parameters()])
    everyones = [torch.empty_like(weights) for _ in range(size)]
    dist.all_gather(everyones, weights)
    same = all(torch.equal(weights, one) for one in everyones)
    node, devices = os.environ.get("PHALANX_NODE", "?")[:8], os.environ.get("CUDA_VISIBLE_DEVICES")
    print(f"rank {rank} of {size} on node {node} with GPU {devices}: copies equal: {same}")
    if rank == 0:
        print(f"{accuracy(model.module, test):.1%} of {len(test)} unseen digits are recognized")


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    try:
        train()
    finally:
        dist.destroy_process_group()
