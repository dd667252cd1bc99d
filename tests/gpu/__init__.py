"""On a machine with a real GPU: `make test-gpu`. Everywhere else these tests are skipped."""
