"""The actors that an owner creates and calls."""
