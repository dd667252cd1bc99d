"""The batch scheduler on a Ray cluster: the head's machines in a detached Ray actor.

`actor` has the actor, and `scheduler_thread` the thread in it that runs the machines. `node_agent`
is the actor on each node. `reservation` holds the resources of gangs as Ray's placement groups.
Programs send their requests through `client`.
"""
