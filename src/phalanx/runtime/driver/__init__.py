"""What a driver or worker has to submit, own, lend and wait: one thread-safe runtime."""
