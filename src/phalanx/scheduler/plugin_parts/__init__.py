"""Parts of plugins that are long enough for their own files."""
