"""One test for each defect that a program has revealed."""
