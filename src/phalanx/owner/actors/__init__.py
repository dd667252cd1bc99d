"""The actors that an owner makes and calls."""
