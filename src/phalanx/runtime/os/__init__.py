"""What the engines run on each machine: directories, connections, loops, and processes of commands.

The embedded engine's node and head are built on it, and so is the node agent of the Ray engine.
"""
