"""Code that uses the operating system: directories, connections, loops, and processes of commands.

The runtime's node and head are built on them, and so is the node agent of the Ray engine.
"""
