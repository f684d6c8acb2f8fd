"""What every front needs to run a question: models, retrievers, placement on devices, and `Session` over them."""
