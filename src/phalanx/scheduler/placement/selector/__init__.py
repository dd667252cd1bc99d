"""The selector: a chain of filters for choosers that do not know each other."""
