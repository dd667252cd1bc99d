"""Ray as the engine for many machines; the only package that imports ray, of the extra `ray`."""
