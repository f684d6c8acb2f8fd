"""The relevance of each chunk of a list, from what the retriever knows of the list; for every method that uses it.

R2AG puts it before each chunk; FIT-RAG reads until the sum is enough.
"""
