"""FIT-RAG (Mao et al., 2024)."""
