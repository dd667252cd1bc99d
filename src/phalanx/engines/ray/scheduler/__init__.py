"""The batch scheduler on a Ray cluster: the control store's machines in a detached Ray actor.

`actor` hosts them, `brain` is the thread that runs them, `runner` is the agent on each node,
`reservation` holds what gangs have as Ray's placement groups, `client` is how programs ask.
"""
