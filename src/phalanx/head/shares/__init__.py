"""What users have used of their shares of each queue, kept by the head."""
