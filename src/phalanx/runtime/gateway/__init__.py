"""The gateway: the one process of a node that touches TCP, TLS and the cluster's token.

Processes of a node speak over Unix sockets. To reach another node they ask the gateway's gate,
which dials, authenticates and passes them the socket. Connections from other nodes are accepted and
authenticated by the gateway, which passes the socket to the target process. So no process that
unpickles ever reads a byte from a peer that has not proved that it holds the token.
"""
