"""The scripts that accelerate ships, run as gangs: in two members, and in four members on two
nodes.
"""

import sys
from pathlib import Path

import pytest
from lines import GANG, HERE, lines

PART = str(Path(__file__).with_name("accelerate_part.py"))
ON_CPUS = ("-e", "ACCELERATE_USE_CPU=true", "-e", "OMP_NUM_THREADS=1")
OF_TWO = ("test_split_between_processes_tensor",)
"""Tests that expect two processes."""
OF_GPUS = (
    "test_can_join_uneven_inputs",
    "test_join_can_override_even_batches",
    "test_join_can_override_for_mixed_type_dataloaders",
    "test_join_raises_warning_for_iterable_when_overriding_even_batches",
)
"""Tests of uneven inputs. accelerate joins such inputs only on GPUs; elsewhere it warns, and then
waits for ever.
"""
COUNT = """
from accelerate import Accelerator
state = Accelerator().state
print(f"index {state.process_index} of {state.num_processes}", flush=True)
"""
LAUNCH = (
    f"{sys.executable} -m accelerate.commands.launch --multi_gpu --num_machines=$WORLD_SIZE "
    "--machine_rank=$RANK --main_process_ip=$MASTER_ADDR --main_process_port=$MASTER_PORT "
    "--num_processes=4 --mixed_precision=no --dynamo_backend=no "
)


@pytest.mark.parametrize(
    ("script", "size", "left_out"),
    [
        ("test_script", 2, ()),
        ("test_script", 4, OF_TWO),
        ("test_sync", 2, ()),
        ("test_sync", 4, ()),
        ("test_ops", 2, ()),
        ("test_ops", 4, ()),
        ("test_distributed_data_loop", 2, OF_GPUS),
    ],
)
def test_a_shipped_script(two_nodes, script, size, left_out):
    run = [sys.executable, PART, script, *left_out]
    found = lines(*GANG, str(size), *ON_CPUS, "--", *run, of=script)
    assert found == [f"{script}: process {rank} of {size}" for rank in range(size)]


@pytest.mark.parametrize(
    ("script", "function", "why"),
    [
        ("test_script", *OF_TWO, "torch.Size([0, 4]) != torch.Size([1, 4])"),
        ("test_distributed_data_loop", "create_accelerator", "expects that two GPUs are available"),
    ],
)
def test_what_is_for_two_processes_ends_on_four_as_with_torchrun(two_nodes, script, function, why):
    """If torchrun ends in the same way, the script itself requires two processes, and the gang is
    not the cause.
    """
    run = [PART, "--alone", script, function]
    beside = {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    alone = lines(f"{HERE}/torchrun", "--nproc-per-node", "4", *run, of=script, **beside)
    ganged = lines(*GANG, "4", *ON_CPUS, "--", sys.executable, *run, of=script)
    assert alone == ganged
    assert len(alone) == 4
    assert any(f"{function} fails" in line and why in line for line in alone)


def test_its_launcher_starts_two_processes_in_each_member(two_nodes, tmp_path):
    script = tmp_path / "count.py"
    script.write_text(COUNT)
    found = lines(*GANG, "2", *ON_CPUS, "--", "sh", "-c", f"{LAUNCH}{script}", of="index")
    assert found == [f"index {rank} of 4" for rank in range(4)]
