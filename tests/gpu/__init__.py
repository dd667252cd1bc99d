"""Tests for a machine with a real GPU (`make test-gpu`). On other machines they are skipped."""
