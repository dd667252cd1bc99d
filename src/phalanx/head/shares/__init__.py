"""Users' usage of each queue and their shares, kept by the head."""
