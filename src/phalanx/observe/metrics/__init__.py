"""Numbers for monitoring: the metrics by name, and machines that count them."""
