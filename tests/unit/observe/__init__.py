"""Events, listings and the data behind them."""
