"""What fits the trained parts of methods: labels, losses, loops. The forward passes stand in `methods`."""
