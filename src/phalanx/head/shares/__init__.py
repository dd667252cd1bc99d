"""Users' usage in each queue and their shares, as the head keeps them."""
