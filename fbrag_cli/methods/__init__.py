"""One module a method of the papers, and what they share."""
