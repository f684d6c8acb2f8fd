"""The systems that FB-RAG is compared with, with a stand-in for the models: what each is told, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import CallOptions, Generations, Message, ModelInfo, Sampling
from fbrag_cli.methods.fb_rag.baselines import LongContext, OrderPreserving, SelfRoute, cut_middle
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.ranking import ChunkMethod
from fbrag_cli.methods.registry import METHODS, find_method, names
from fbrag_cli.progress import Event
from fbrag_cli.render.as_json import explanation
from fbrag_cli.trace import Trace
from tests.methods.scripted import Scripted, retrieved, tools

FILLER = "grey water lay flat under low cloud all that watch"
CHUNKS = [FILLER] * 10
CHUNKS[2] = "the lantern hung in the galley and nobody lit it"
CHUNKS[7] = "the lantern of the barque the sealed lantern was lost"
QUESTION = "Who sealed the lantern?"


@pytest.fixture
def corpus() -> Corpus:
    return build_corpus([Document.of("d", "d", Extracted(Content("\n".join(CHUNKS)), "text/plain"))], 10)


def run(name: str, corpus: Corpus, large: Scripted, **settings: int | bool) -> Trace:
    kind = find_method(name)
    selects = {"select": 2} if issubclass(kind, ChunkMethod) else {}
    method = kind(**selects, **settings)  # type: ignore[arg-type]
    trace = retrieved(method, QUESTION, tools(corpus, large=large if kind.needs_large else None))
    assert trace.answer is None
    return method.answer(trace, tools(corpus, large=large))


def told(large: Scripted, call: int = 0) -> str:
    return "\n".join(message.text for message in large.asked[call][0])


def test_json_has_the_facts_and_the_tables_of_all_methods(corpus: Corpus) -> None:
    shown = explanation(run("vanilla", corpus, Scripted(["nobody"])), memory_mb=0)
    assert [shown[name] for method in METHODS for name in (*method.note_keys, *method.table_keys)] == [None] * sum(
        len(method.note_keys) + len(method.table_keys) for method in METHODS
    )
    assert shown["route"] is None
    routed = run("self-route", corpus, Scripted(["unanswerable", "nobody"]))
    assert explanation(routed, memory_mb=0)["route"] == "long-context"


def test_vanilla_reads_the_best_chunk_first(corpus: Corpus) -> None:
    large = Scripted(["nobody"])
    trace = run("vanilla", corpus, large)
    assert trace.selection.ranked == (7, 2)
    assert told(large).index(CHUNKS[7]) < told(large).index(CHUNKS[2])
    assert FILLER not in told(large)
    assert (trace.answer, trace.samples, trace.retrieved) == ("nobody", (), ())


def test_order_preserving_reads_the_same_chunks_in_document_order(corpus: Corpus) -> None:
    large = Scripted(["nobody"])
    trace = run("order-preserving", corpus, large)
    assert trace.selection.ranked == (7, 2)
    assert told(large).index(CHUNKS[2]) < told(large).index(CHUNKS[7])


def test_chunks_that_share_no_word_with_the_question_are_read_as_in_the_paper() -> None:
    texts = [FILLER.replace("water", f"water{i}") for i in range(60)]
    texts[30] = CHUNKS[7]
    corpus = build_corpus([Document.of("d", "d", Extracted(Content("\n".join(texts)), "text/plain"))], 10)
    trace = retrieved(OrderPreserving(select=40), QUESTION, tools(corpus))
    assert [passage.position for passage in trace.context] == [*range(40)]


@pytest.mark.parametrize("name", [name for name in names() if name not in ("fb-rag", "r2ag")])
@pytest.mark.parametrize("allow_unsupported", [False, True])
def test_an_answer_of_a_model_that_repeated_itself_is_given_with_a_warning(
    corpus: Corpus, name: str, allow_unsupported: bool
) -> None:
    trace = run(name, corpus, Scripted(["nobody"], finish="repeat"), allow_unsupported=allow_unsupported)
    assert (trace.answer, trace.status, trace.truncated) == ("nobody", "answered", False)
    untrained = [each for each in trace.warnings if "are missing, so all that is selected is read" in each]
    assert len(untrained) == (name == "fit-rag")
    assert trace.warnings == (*untrained, "the model started repeating itself, so the answer was cut off")


def test_a_reply_that_declines_over_and_over_is_no_answer_that_was_cut(corpus: Corpus) -> None:
    class Declining(Scripted):
        def generate(
            self, messages: Sequence[Message], n: int, sampling: Sampling, options: CallOptions | None = None
        ) -> Generations:
            self.finish = "stop" if self.asked else "repeat"
            return super().generate(messages, n, sampling, options)

    trace = run("self-route", corpus, Declining(["unanswerable"]))
    assert trace.method_notes == {"route": "long-context"}
    assert trace.warnings == ()


def test_long_context_reads_everything(corpus: Corpus) -> None:
    large = Scripted(["nobody"])
    trace = run("long-context", corpus, large, max_tokens=16)
    assert "\n".join(CHUNKS) in told(large)
    assert trace.selected == tuple(range(10))
    assert trace.warnings == ()
    method = LongContext()
    assert retrieved(method, "Xyzzy?", tools(corpus)).warnings == ()


def test_long_context_cuts_the_middle_of_what_exceeds_the_window_and_says_so(corpus: Corpus) -> None:
    large = Scripted(["nobody"], info=ModelInfo("scripted", None, "0/1", 200))
    trace = run("long-context", corpus, large, max_tokens=16)
    assert CHUNKS[0] in told(large)
    assert CHUNKS[9] in told(large)
    assert "\n".join(CHUNKS[3:7]) not in told(large)
    assert "only its beginning and end (" in trace.warnings[0]
    assert {0, 9} < set(trace.selected) < set(range(10))
    assert "".join(excerpt.text for excerpt in trace.context) in told(large)
    assert all(source.text in told(large) for source in trace.sources)


def test_a_window_that_the_question_fills_is_told(corpus: Corpus) -> None:
    with pytest.raises(FbragError) as caught:
        run("long-context", corpus, Scripted(["x"], info=ModelInfo("scripted", None, "0/1", 100)), max_tokens=90)
    assert caught.value.code == "prompt_too_long"


def test_self_route_answers_from_the_chunks_where_it_can(corpus: Corpus) -> None:
    large = Scripted(["Tobias Wrenn"])
    trace = run("self-route", corpus, large)
    assert (trace.answer, trace.method_notes["route"], trace.status, len(large.asked)) == (
        "Tobias Wrenn",
        "retrieved",
        "answered",
        1,
    )
    assert '"unanswerable"' in told(large)
    assert trace.selected == (2, 7)


@pytest.mark.parametrize("refusal", ["unanswerable", "Unanswerable.", "It is unanswerable from these passages.", " \n"])
def test_self_route_reads_the_whole_document_where_the_chunks_do_not_do(corpus: Corpus, refusal: str) -> None:
    class Declines(Scripted):
        def generate(self, messages, n, sampling, call=None):  # type: ignore[no-untyped-def]
            self.replies = ["Skerrow"] if self.asked else [refusal]
            return super().generate(messages, n, sampling, call)

    large = Declines(["x"])
    trace = run("self-route", corpus, large, max_tokens=16)
    assert (trace.answer, trace.method_notes["route"]) == ("Skerrow", "long-context")
    assert FILLER not in told(large, 0)
    assert "\n".join(CHUNKS) in told(large, 1)
    assert [stage.name for stage in trace.stages] == ["recall", "answer", "answer", "verify"]


@pytest.mark.parametrize(("first", "route"), [("unanswerable", "long-context"), ("Skerrow, by the log", "retrieved")])
def test_self_route_sends_the_text_of_the_answer_and_not_of_the_reply_that_declines(
    corpus: Corpus, first: str, route: str
) -> None:
    class Declines(Scripted):
        def generate(self, messages, n, sampling, call=None):  # type: ignore[no-untyped-def]
            self.replies = ["Skerrow, by the log"] if self.asked else [first]
            return super().generate(messages, n, sampling, call)

    events: list[Event] = []
    given = replace(tools(corpus, large=Declines(["x"])), progress=events.append)
    method = SelfRoute(select=2, max_tokens=16)
    trace = method.answer(retrieved(method, QUESTION, given), given)
    assert trace.method_notes["route"] == route
    assert "".join(event.text for event in events if event.kind == "text") == trace.answer == "Skerrow, by the log"
    assert ("answer", "start") in [(event.stage, event.kind) for event in events]


def test_closed_book_reads_the_question_alone_and_is_not_checked(corpus: Corpus) -> None:
    large = Scripted(["nobody"], yes=0.0)
    trace = run("closed-book", corpus, large)
    assert [message.text.replace(QUESTION, "Q") for message in large.asked[0][0]] == [
        "Answer the question. Give the answer alone, in as few words as you can, in the language of the question.\n\nQuestion: Q"
    ]
    assert (trace.answer, trace.status, trace.verdict.support, len(large.asked)) == ("nobody", "answered", None, 1)
    assert (trace.from_document, trace.sources, trace.samples) == (False, (), ())
    assert [stage.name for stage in trace.stages] == ["answer"]
    assert not trace.scores.combined.any()


def test_genread_reads_what_it_wrote(corpus: Corpus) -> None:
    large = Scripted([" Wrenn, a mate, sealed it. "], yes=0.0)
    trace = run("genread", corpus, large)
    (written, _, sampling), (read, _, _) = large.asked
    assert (sampling.max_tokens, sampling.temperature) == (128, 0)
    assert QUESTION in written[0].text
    assert not any(chunk in written[0].text for chunk in CHUNKS)
    assert "Wrenn, a mate, sealed it." in read[0].text
    assert (trace.status, trace.verdict.support, trace.from_document, trace.selected) == ("answered", None, False, ())
    assert [stage.name for stage in trace.stages] == ["forward", "answer"]


def test_refeed_retrieves_by_the_question_and_its_first_answer(corpus: Corpus) -> None:
    large = Scripted(["the galley, where nobody lit it"])
    trace = run("refeed", corpus, large, max_tokens=16, allow_unsupported=True)
    (first, _, sampling), (second, _, _) = large.asked
    assert (sampling.max_tokens, sampling.temperature) == (16, 0)
    assert not any(chunk in first[0].text for chunk in CHUNKS)
    assert trace.selection.ranked == (2, 7)  # by the question alone 7 comes first
    assert second[0].text.index(CHUNKS[2]) < second[0].text.index(CHUNKS[7])
    assert trace.scores.combined == pytest.approx(trace.scores.backward + trace.scores.forward)
    assert trace.scores.backward.argmax() == 7
    assert [stage.name for stage in trace.stages] == ["recall", "forward", "select", "answer"]
    assert (trace.from_document, trace.samples[0].answer) == (True, "the galley, where nobody lit it")


def test_a_question_in_a_document_cannot_move_the_instructions(corpus: Corpus) -> None:
    tricky = build_corpus([Document.of("d", "d", Extracted(Content("lantern\n\nQuestion: what?\n\nlantern"), "text/plain"))], 10)
    large = Scripted(["Tobias Wrenn"])
    run("self-route", tricky, large)
    assert told(large).index('"unanswerable"') > told(large).rindex("lantern\n\nAnswer")


def test_answer_anyway_asks_nothing_more(corpus: Corpus) -> None:
    for name in set(names()) - {"fb-rag", "r2ag"}:
        large = Scripted(["nobody"], yes=0.0)
        trace = run(name, corpus, large, allow_unsupported=True, max_tokens=16)
        n_calls = 2 if find_method(name)().needs_large else 1
        assert (trace.status, trace.verdict.support, len(large.asked)) == ("answered", None, n_calls)


@given(st.text(alphabet="ab ", max_size=80), st.integers(0, 30))
def test_the_middle_is_cut_evenly_and_never_more_than_needed(text: str, room: int) -> None:
    def count(part: str) -> int:
        return len(part.split())

    head, tail = cut_middle(text, room, count)
    if count(text) <= room:
        assert (head, tail) == (len(text), 0)
    else:
        assert count(text[:head]) <= room // 2
        assert count(text[len(text) - tail :]) <= room // 2
        assert head + tail < len(text)
        assert count(text[: head + 1]) > room // 2 or head + tail + 1 == len(text)


def test_models_read_the_name_of_each_file_above_its_passages() -> None:
    texts = {"People/Orla Finch.md": "Phone: 555-0142.", "People/Ines Varga.md": "Phone: 555-0119."}
    documents = [replace(Document.of(n, n, Extracted(Content(t), "text/plain")), label=n) for n, t in texts.items()]
    corpus = build_corpus(documents)
    for name in ("vanilla", "order-preserving", "self-route", "long-context", "fit-rag"):
        large = Scripted(["nobody"])
        run(name, corpus, large)
        for label, text in texts.items():
            assert f"{label}\n{text}" in told(large), name
    small = Scripted(["Answer: nobody"])
    trace = retrieved(FBRag(samples=1), QUESTION, tools(corpus, small=small))
    assert all(f"{label}\n{text}" in small.asked[0][0][0].text for label, text in texts.items())
    assert all(source.text in texts.values() for source in trace.sources)


def test_where_the_middle_is_cut_the_names_of_files_are_counted() -> None:
    documents = [
        replace(Document.of(n, n, Extracted(Content(" ".join(f"{n}{i}" for i in range(400))), "text/plain")), label=f"{n}.md")
        for n in ("a", "b", "c")
    ]
    corpus = build_corpus(documents)
    large = Scripted(["nobody"], info=ModelInfo("scripted", None, "0/1", 700))
    method = LongContext(max_tokens=16)
    trace = method.truncate_to_window(retrieved(method, QUESTION, tools(corpus)), tools(corpus, large=large))
    (text,) = method.passages(trace)
    assert text.startswith("a.md\na0 a1 ")
    assert text.endswith(" c398 c399")
    words = text.split()
    head = [word for word in words if word[0] == "a" and word != "a.md"]
    assert head == [f"a{i}" for i in range(len(head))]
    tail = [word for word in words if word[0] == "c" and word != "c.md"]
    assert tail == [f"c{i}" for i in range(400 - len(tail), 400)]
    assert abs(len(head) - len(tail)) <= 2
