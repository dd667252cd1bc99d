"""What records of attempts say: how well a job used its places, and sums by hour."""
