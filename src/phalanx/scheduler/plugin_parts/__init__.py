"""Parts of plugins that are long enough for a file of their own."""
