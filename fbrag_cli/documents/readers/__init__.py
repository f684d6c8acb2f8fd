"""One module a format: bytes become text."""
