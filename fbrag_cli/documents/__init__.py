"""A path becomes a `Document`."""
