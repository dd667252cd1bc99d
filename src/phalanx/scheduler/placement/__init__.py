"""Pure choices: which node, which bundles, which of the queued, with the reasons for every no."""
