"""Language models: the `Generator` protocol, its records, and what implements it."""
