"""Lightning's Trainer, with one process for each member of a gang.

pip install lightning
phalanx run --gang 2 -- python examples/launchers/lightning_fit.py
"""

from __future__ import annotations

import os

try:
    import lightning
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from phalanx.adapters.lightning import PhalanxEnvironment
except ModuleNotFoundError as error:
    raise SystemExit(f"This example needs {error.name}: pip install lightning") from None


class Line(lightning.LightningModule):
    """A model that learns the sum of four numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: list[torch.Tensor], number: int) -> torch.Tensor:
        """Return the loss of a batch."""
        return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[0].sum(1, keepdim=True))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.SGD(self.parameters(), 0.1)


if __name__ == "__main__":
    lightning.seed_everything(1, verbose=False)
    nodes, here = int(os.environ["GROUP_WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    trainer = lightning.Trainer(
        accelerator="cpu",
        strategy="ddp",
        devices=here,
        num_nodes=nodes,
        plugins=[PhalanxEnvironment()],
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Line()
    trainer.fit(model, DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8))
    weight = model.layer.weight.sum().item()
    print(f"rank {trainer.global_rank} of {trainer.world_size}: weights sum to {weight:.4f}")
