"""Results from records of attempts: how well a job used its resources, and sums by hour."""
