"""Prefixes of queries and chunks for embedding models, by the model's name.

A model was trained with these words, and its file seldom has them. Each is from the model's own card.
"""

from __future__ import annotations

import re

_BGE = "Represent this sentence for searching relevant passages: "

#: (pattern, prefix of a query, prefix of a chunk); the first pattern that is found in the name counts.
_BY_NAME: tuple[tuple[str, str, str], ...] = (
    (r"\bbge-(small|base|large)-zh", "为这个句子生成表示以用于检索相关文章：", ""),
    (r"\bbge-(small|base|large)-en|\bmxbai-embed-large|\bsnowflake-arctic-embed(?!.*v2)", _BGE, ""),
    (r"\bsnowflake-arctic-embed", "query: ", ""),
    (r"\be5-(small|base|large)(?!.*instruct)", "query: ", "passage: "),
    (r"\bnomic-embed-text", "search_query: ", "search_document: "),
    (r"\bembedding-?gemma", "task: search result | query: ", "title: none | text: "),
    (
        r"\bqwen3-embedding|\be5-.*instruct",
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: ",
        "",
    ),
)


def prefixes_of(name: str) -> tuple[str, str]:
    """Return the prefixes of a query and of a chunk; empty for models without (MiniLM, MPNet, BGE-M3) and unknown ones.

    name: of the model, of its file or both, such as "BAAI/bge-large-en-v1.5" or "Bge Large En v1.5".
    """
    plain = re.sub(r"[\s_]+", "-", name.lower())
    return next(((query, chunk) for pattern, query, chunk in _BY_NAME if re.search(pattern, plain)), ("", ""))
