"""The life of the warm process: where it listens, who may come in, when it ends."""
