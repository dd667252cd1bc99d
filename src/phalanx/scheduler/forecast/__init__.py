"""Forecasts: when waiting work will start, and the places that are promised to it until then."""
