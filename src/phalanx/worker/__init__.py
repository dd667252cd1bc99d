"""A worker: the work that was sent to a process, the part of it that runs, and the references and
resources of that part.
"""
