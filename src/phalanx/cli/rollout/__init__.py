"""Installs and starts a cluster on many machines, for `phalanx up` and `phalanx down`.

`cluster_file` reads the description of a cluster, `plan` decides what to do from the description
and the state of the machines, and `words` puts steps into words. These three modules are pure.
`connection` runs ssh and scp, `execution` carries out a plan, and `machine_program` is the program
that runs on each machine.
"""
