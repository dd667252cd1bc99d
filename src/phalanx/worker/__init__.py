"""The state of a worker process: the work that owners have sent to it, the work that it runs, and
the references and resources of that work.
"""
