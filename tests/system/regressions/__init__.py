"""One test for each defect that a program has revealed. The docstring of a test in the past tense
says what the defect was.
"""
