"""The batch scheduler on a Ray cluster: the head's machines in a detached Ray actor.

`actor` hosts the machines and `scheduler_thread` runs them. `node_agent` is the actor on each node.
`reservation` holds the resources of gangs as Ray's placement groups. Programs send their requests
through `client`.
"""
