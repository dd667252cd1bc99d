"""What happened at the head's cluster, written down for people."""
