"""Language models: the `Generator` protocol, its records, and its implementations."""
