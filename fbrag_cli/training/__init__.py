"""Training of the components of methods: labels, losses, loops. The forward passes are in `methods`."""
