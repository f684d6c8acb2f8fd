"""The training of FIT-RAG: labels, scorer, detector, recognizer."""
