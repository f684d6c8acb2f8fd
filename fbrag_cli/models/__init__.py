"""Which models there are, where their files lie, and how they come there. Knows nothing of what runs them."""
