"""The life of the server: where it listens, who may come in, when it ends."""
