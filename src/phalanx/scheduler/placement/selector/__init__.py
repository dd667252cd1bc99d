"""The selector: a chain of filters for choosers that decide independently of each other."""
