"""The policy selector: a chain of filters, for processes that choose nodes without knowing of each
other.
"""
