"""Parts of plugins that are large enough for files of their own."""
