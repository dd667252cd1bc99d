"""What a machine's devices do and how they are, read in a process of its own."""
