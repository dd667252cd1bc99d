"""Time: when what waits will start, and the places that are promised to it until then."""
