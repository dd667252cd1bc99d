"""Events of the head's cluster, recorded for people."""
