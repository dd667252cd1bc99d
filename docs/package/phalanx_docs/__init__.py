"""The pages of the documentation, as Markdown in the folder `pages`."""
