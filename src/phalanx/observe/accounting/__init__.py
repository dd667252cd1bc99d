"""Results from records of attempts: how well a job used its places, and sums by hour."""
