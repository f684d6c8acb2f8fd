"""fbrag: answers to questions about long documents, by forward-backward RAG, on your own machine."""

__version__ = "0.2.0"
