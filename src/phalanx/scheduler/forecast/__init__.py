"""Forecasts: when waiting work will start, and which places it is promised until then."""
