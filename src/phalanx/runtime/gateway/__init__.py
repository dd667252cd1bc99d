"""The gateway: the only process of a node that handles TCP, TLS and the cluster's token.

Processes of a node talk over Unix sockets. To reach another node they ask the gateway's gate. The
gateway dials, authenticates, and passes the socket to the asking process. It also accepts and
authenticates connections from other nodes, and passes each socket to its target process. So
processes that unpickle read bytes only from peers that have proved to hold the token.
"""
