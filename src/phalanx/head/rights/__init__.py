"""Rights: who may do what, decided in one place for every request."""
