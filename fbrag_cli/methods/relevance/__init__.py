"""How relevant each chunk of a list is, from what the retriever knows of the list: for every method that asks.

R2AG puts it before each chunk; FIT-RAG reads until there is enough of it.
"""
