"""The Model Context Protocol: tools for agents, over a `Desk`."""
