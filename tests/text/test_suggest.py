from fbrag_cli.text.suggest import closest, suggestion


def test_a_misspelled_name_suggests_the_name_that_is_most_like_it() -> None:
    assert suggestion("ordr-preserving", ["fb-rag", "order-preserving"], "one of two") == "did you mean order-preserving?"
    assert suggestion("x", ["fb-rag", "order-preserving"], "one of two") == "one of two"


def test_a_part_of_a_name_suggests_the_first_that_has_it() -> None:
    assert closest("Qwen", ["smollm2", "qwen2.5-1.5b", "qwen2.5-7b"]) == "qwen2.5-1.5b"
    assert closest("FB_RAG", ["vanilla", "fb-rag"]) == "fb-rag"
    assert closest("x", ["max_tokens"]) is None
