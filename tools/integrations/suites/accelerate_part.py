"""Runs one of accelerate's scripts on CPUs: accelerate_part.py NAME [FUNCTION ...]. The named
functions are left out. Or runs one function of a script: accelerate_part.py --alone NAME FUNCTION.

Some scripts do not ask for CPUs themselves, so this program does that first, in all processes. With
--alone, each process prints how the function ended.
"""

import importlib
import sys

from accelerate import Accelerator, PartialState

is_alone = sys.argv[1] == "--alone"
name, *functions = sys.argv[1 + is_alone :]
script = importlib.import_module(f"accelerate.test_utils.scripts.{name}")
state = PartialState(cpu=True)
rank = f"process {state.process_index} of {state.num_processes}"
if is_alone:
    Accelerator(cpu=True)
    try:
        getattr(script, functions[0])()
        print(f"{name}: {rank}: {functions[0]} passes", flush=True)
    except Exception as error:
        is_own = isinstance(error, AssertionError)
        said = str(error).strip().splitlines()[0] if is_own else "one that it waits for has left"
        print(f"{name}: {rank}: {functions[0]} fails: {said}", flush=True)
else:
    for function in functions:
        getattr(script, function)
        setattr(script, function, lambda *args: None)
    script.main()
    print(f"{name}: {rank}", flush=True)
