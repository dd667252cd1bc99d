"""The state and use of a machine's devices, read in a process of its own."""
