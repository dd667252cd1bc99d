"""The gateway: the one process of a node that touches TCP, TLS and the cluster's token.

Processes of a node speak over Unix sockets. Towards another node they ask the gateway's gate, which
dials, authenticates and passes them the socket; from other nodes the gateway accepts, authenticates
and passes the socket to the process that is meant. So nothing that unpickles ever reads a byte from
somebody who has not proved that he holds the token.
"""
