"""One of accelerate's shipped scripts on CPUs: accelerate_part.py NAME [FUNCTION ...]

All processes take part, which those scripts that ask for no CPUs do not see to; the functions that
are named are left out.
"""

import importlib
import sys

from accelerate import PartialState

name, *left_out = sys.argv[1:]
script = importlib.import_module(f"accelerate.test_utils.scripts.{name}")
for function in left_out:
    getattr(script, function)
    setattr(script, function, lambda *args: None)
state = PartialState(cpu=True)
script.main()
print(f"{name}: process {state.process_index} of {state.num_processes}", flush=True)
