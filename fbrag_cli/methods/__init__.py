"""The methods, a folder a paper, and what they share."""
