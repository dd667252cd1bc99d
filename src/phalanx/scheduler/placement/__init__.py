"""Pure choices of a node, of bundles, or of queued work, with the reasons for every rejection."""
