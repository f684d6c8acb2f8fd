"""FB-RAG, and the methods that its paper compares it with."""
