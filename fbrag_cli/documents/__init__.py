"""Files become `Document`s: their format, their encoding, their text."""
