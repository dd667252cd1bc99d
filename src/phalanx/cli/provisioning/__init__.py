"""Elastic nodes: pools of machines that programs of the user start and end, as work needs them."""
