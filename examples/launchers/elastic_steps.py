"""Counts steps, and continues with any number of ranks. torchrun's elastic agents run this script,
one agent in each member.

    torchrun --nnodes=1:3 --rdzv-backend=c10d --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT \
        --rdzv-id=$TORCHELASTIC_RUN_ID --max-restarts=20 elastic_steps.py DIRECTORY

All nodes share DIRECTORY. Its file `step` has the step that was reached, and its file `worlds` has
a line for each set of ranks. A file `stop` there ends all ranks.
"""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from pathlib import Path

try:
    import torch
    import torch.distributed as dist
except ModuleNotFoundError as error:
    raise SystemExit(f"This example needs {error.name}: pip install torch") from None


def main() -> None:
    where = Path(sys.argv[1])
    dist.init_process_group("gloo", timeout=timedelta(seconds=15))
    is_first = dist.get_rank() == 0
    kept = where / "step"
    start = step = int(kept.read_text()) if kept.exists() else 0
    while True:
        stop = torch.tensor([float((where / "stop").exists())])
        dist.all_reduce(stop, op=dist.ReduceOp.MAX)
        step += 1
        if is_first and step == start + 1:
            with (where / "worlds").open("a") as worlds:
                print(f"{dist.get_world_size()} ranks from step {start}", file=worlds)
        if is_first:
            (where / "step.new").write_text(str(step))
            (where / "step.new").rename(kept)
        if stop.item():
            break
        time.sleep(0.1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
