"""`Session` and its parts: loaded models, retrievers, placement on devices. Every front runs its questions through it."""
