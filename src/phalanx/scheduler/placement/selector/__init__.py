"""The policy selector: a chain of filters, for processes that choose nodes independently of each
other.
"""
