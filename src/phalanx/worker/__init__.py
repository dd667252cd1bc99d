"""A worker: the work that was sent to a process, the work that runs, and the references and
resources of that work.
"""
