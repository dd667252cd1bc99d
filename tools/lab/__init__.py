"""A lab on one machine: hosts that are network namespaces, each with accounts, an sshd and files of
its own. `make lab` sets a cluster up in it with `phalanx up`, upgrades it, kills its head for good,
and writes what it saw to docs/tutorials/lab.md.
"""
