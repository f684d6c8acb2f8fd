"""Readers of the formats, one module for each: bytes become `Extracted`."""
