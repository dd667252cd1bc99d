"""The batch scheduler on a Ray cluster: the machines of the control plane in a detached Ray actor.

`actor` hosts them, `scheduler_thread` runs them, `node_agent` is the actor on each node,
`reservation` holds what gangs have as Ray's placement groups, `client` is how programs ask.
"""
