"""Which sources an answer cites, which sentence of each shows it, and what stands in none of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from fbrag_cli.citations import Citations
from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted, PageSpan, Section, itself
from fbrag_cli.methods.ranking import whole_chunks
from fbrag_cli.query import Collection, Query
from fbrag_cli.render import as_json
from fbrag_cli.render.answer import Answer, answer_of
from fbrag_cli.render.explain_text import one_chunk
from fbrag_cli.render.markdown import markdown
from fbrag_cli.render.text import Layout, cited_answer, text
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.trace import Scores, Selection, Trace, Verdict
from tests.render import test_passages

ROADS = "The barque lay at anchor in the roads of Skarn. Nobody slept there. The rain kept on until the morning watch."
BOX = "Mr. Dabney said little. The box was sealed by Tobias Wrenn with lead in 1893. Mr. Dabney still had the key."
TOWN = "The watchmaker was a quiet man. Wrenn was born in Dunlathe, where his father wound the clock. He left it early."


def trace_of(
    *texts: str, answer: str | None, question: str = "Who sealed the box?", language: str = "en", by_ocr: bool = False
) -> Trace:
    """A trace whose sources are `texts`, each a document of one chunk, with scores that fall. by_ocr: each is a scan."""
    read = [
        Extracted(Content(t, (PageSpan(1, 0, len(t)),)), "application/pdf", ocr_pages=(1,))
        if by_ocr
        else Extracted(Content(t), "text/plain")
        for t in texts
    ]
    found = [Document.of(f"{i}.txt", f"{i}.txt", each, language=language) for i, each in enumerate(read)]
    corpus = build_corpus(found)
    every = tuple(range(len(texts)))
    combined = np.arange(len(texts), 0, -1, dtype=np.float32)
    base = test_passages.trace_of("x", "", "")
    scores = Scores(combined, np.zeros((0, len(texts)), np.float32), 0 * combined, np.full(len(texts), -1), combined)
    return replace(
        base,
        query=Query(question, Collection(corpus, BM25.of(corpus)), base.method),
        scores=scores,
        selection=Selection(dict.fromkeys(every, ()), whole_chunks(corpus, every)),
        forward=None,
        status="answered" if answer else "retrieved",
        answer=answer,
    )


def sentences(cited: Citations) -> list[str | None]:
    return [shown.sentence and shown.sentence.text for shown in cited.evidence]


def marked(trace: Trace, cited: Citations) -> list[list[str]]:
    pairs = zip(trace.sources, cited.evidence, strict=True)
    return [[source.document.text[slice(*mark)] for mark in shown.marks] for source, shown in pairs]


def test_the_source_that_holds_the_answer_is_cited_whatever_its_rank() -> None:
    trace = trace_of(ROADS, TOWN, BOX, answer="Tobias Wrenn")
    cited = trace.citations
    assert [claim.sources for claim in cited.claims] == [(3,)]
    assert sentences(cited)[2] == "The box was sealed by Tobias Wrenn with lead in 1893."
    assert cited_answer(answer_of(trace)).text == "Tobias Wrenn [1]"


def test_each_sentence_carries_its_own_sources_and_one_without_support_none() -> None:
    answer = "Tobias Wrenn sealed it in 1893. He was born in Dunlathe. His ship was the Zanzibar of Greenock."
    trace = trace_of(ROADS, TOWN, BOX, answer=answer)
    cited = trace.citations
    assert [claim.sources for claim in cited.claims] == [(3,), (2,), ()]
    assert [answer[claim.start : claim.end] for claim in cited.claims][1] == "He was born in Dunlathe."
    assert "No sentence that was read holds this answer." not in answer_of(trace).notes()
    assert cited_answer(answer_of(trace)).text.startswith(
        "Tobias Wrenn sealed it in 1893. [1] He was born in Dunlathe. [2] His ship"
    )
    assert cited_answer(answer_of(trace)).text.endswith("Greenock.")
    assert cited_answer(answer_of(trace), sources=False).text == answer


HORSES = "Captain Thaxter came. I did not see the Garefowl again. He rode. Where shall you change horses? Oh! Bromley is next."


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the name of the horse of Captain Thaxter?", "The horse was named Garefowl."),
        ("What is the name of Captain Thaxter's horse?", "Bromley"),  # the horses stand in the sentence before
        ("Did Garefowl win, or Thaxter?", "Thaxter"),
    ],
)
def test_a_sentence_with_the_answer_and_no_other_word_of_the_question_than_names_is_no_proof(question: str, answer: str) -> None:
    trace = trace_of(HORSES, answer=answer, question=question)
    assert cited_answer(answer_of(trace)).text == answer
    assert next(answer_of(trace).notes()) == "No sentence that was read holds this answer."
    assert "\n\nNo sentence that was read holds this answer.\n\n" in markdown(answer_of(trace), Layout(context=0))


@pytest.mark.parametrize(
    ("text", "language", "question", "answer"),
    [
        ("Das Gehalt betrug zwei Pfund. Wrenn ging.", "de", "Welches Gehalt erhielt Wrenn?", "Zwei Pfund"),  # a noun is capital
        ("He was paid two pounds. Wrenn left.", "en", "What was Wrenn paid?", "Two pounds"),
        ("Polonia has its ways to win the Polish Cup in 2000.", "en", "Who won the Polish Cup in 2000?", "Polonia"),  # names
        ("Tobias Wrenn and the Cormorant.", "en", "Wrenn?", "Tobias"),  # nothing else to hold
    ],
)
def test_a_sentence_with_the_answer_and_a_word_that_was_asked_is_a_proof(
    text: str, language: str, question: str, answer: str
) -> None:
    trace = trace_of(text, answer=answer, question=question, language=language)
    assert cited_answer(answer_of(trace)).text == f"{answer} [1]"
    assert "No sentence that was read holds this answer." not in answer_of(trace).notes()


def test_an_answer_that_all_samples_hold_is_shown_by_a_sentence_that_has_all_of_it() -> None:
    trace = trace_of(
        ROADS, "The board chose Lindqvist & Sons on 3 May.", answer="Lindqvist & Sons", question="Who repairs the crane?"
    )
    uncited = "No sentence that was read holds this answer."
    for agreement, cited in ((1.0, True), (2 / 3, False), (None, False)):
        shown = answer_of(replace(trace, verdict=Verdict(agreement=agreement)))
        assert (shown.text, shown.uncited, shown.low_confidence) == ("Lindqvist & Sons", not cited, False)
        assert [claim.sources for claim in shown.claims] == [(1,) if cited else ()]
        assert (uncited in shown.notes()) == (not cited)
    # Half of it is not all of it.
    half = replace(trace, answer="Lindqvist of Malmö", verdict=Verdict(agreement=1.0))
    assert answer_of(half).uncited


def test_of_several_sentences_the_one_with_words_of_the_samples_is_cited_first() -> None:
    loser = "He would scarcely be ten pounds a year the loser by it. Lydia left."
    trace = trace_of(
        loser, "Ten thousand a year! What is it to me?", answer="Ten thousand pounds", question="What has he a year?"
    )
    lookup = test_passages.trace_of("x", "", "Ten thousand a year").forward
    trace = replace(trace, forward=lookup, verdict=Verdict(agreement=2 / 3))
    assert answer_of(trace).sources[0].sentence is not None
    assert answer_of(trace).sources[0].sentence.text == "Ten thousand a year!"


def test_without_samples_a_short_answer_has_to_be_in_one_sentence_whole() -> None:
    told = trace_of(BOX, answer="Tobias Wrenn, in 1894", question="Who sealed the box, and when?")
    assert answer_of(told).uncited
    assert not answer_of(replace(told, verdict=Verdict(agreement=0.0))).uncited  # with samples half of it is enough
    assert not answer_of(replace(told, answer="Tobias Wrenn, in 1893")).uncited


def test_each_number_of_an_answer_cites_a_source_that_has_it() -> None:
    crane, fee = "The crane costs 46,200 euros. The board paid.", "2.1 The fee is EUR 18,400 per quarter. It is due in May."
    asked = "What does the crane cost, and how much is the fee per quarter?"
    trace = trace_of(crane, ROADS, fee, answer="46,200 euros, EUR 18,400 per quarter", question=asked)
    trace = replace(trace, verdict=Verdict(agreement=0.0))
    shown = answer_of(trace)
    assert cited_answer(shown).text == "46,200 euros, EUR 18,400 per quarter [1][2]"
    assert {source.sentence.text for source in shown.sources if source.sentence and source.shows == "best"} == {
        "The crane costs 46,200 euros.",
        "2.1 The fee is EUR 18,400 per quarter.",
    }
    other = replace(trace, answer="46,200 euros, EUR 18,900 per quarter")
    assert answer_of(other).unsupported_terms == ("18,900",)


def test_an_answer_to_a_question_with_a_name_that_the_document_has_nowhere_is_marked_however_sure_the_samples_are() -> None:
    sure = Verdict(agreement=1.0, support=1.0, answer_probability=1.0, confidence=1.0)

    def shown(question: str, language: str = "en") -> Answer:
        missing = BM25.of(trace_of(BOX, answer="Wrenn", language=language).corpus).missing_terms(question)
        trace = trace_of(BOX, answer="Tobias Wrenn", question=question, language=language)
        return answer_of(replace(trace, verdict=sure, missing_terms=missing))

    marked = shown("Who sealed the box of Lisbon?")
    assert (marked.low_confidence, [*marked.notes()][:1]) == (True, ["Not in the document: Lisbon"])
    assert cited_answer(marked).text.startswith("Low confidence: Tobias Wrenn")
    for question in ("Who sealed the box of Dabney?", "Lisbon: who sealed the box?", "Who sealed the zeppelin?"):
        assert not shown(question).low_confidence
    assert not shown("Wer versiegelte die Truhe?", "de").low_confidence  # every noun has a capital


def test_an_answer_that_no_sentence_and_no_sample_holds_is_marked_whatever_its_probability() -> None:
    verdict = Verdict(agreement=0.0, support=1.0, answer_probability=1.0, confidence=0.8)
    trace = replace(trace_of(ROADS, answer="Tobias Wrenn"), verdict=verdict)
    assert (answer_of(trace).uncited, answer_of(trace).low_confidence) == (True, True)
    assert not answer_of(replace(trace, verdict=replace(verdict, agreement=1 / 3))).low_confidence
    told = as_json.answer(trace, memory_mb=0)
    assert (told["uncited"], told["low_confidence"]) == (True, True)
    none = as_json.answer(replace(trace, status="not_found"), memory_mb=0)
    assert (none["uncited"], none["low_confidence"]) == (None, None)  # no answer is no sure answer


def test_of_an_answer_in_another_language_than_the_sources_nobody_says_that_no_sentence_shows_it() -> None:
    trace = trace_of(BOX, answer="Le capitaine a scellé la boîte avec du plomb.")
    assert list(answer_of(trace).notes()) == []


def test_sources_that_show_the_same_are_cited_together_best_first() -> None:
    other = "The second box was sealed by Tobias Wrenn as well. It was lost."
    cited = trace_of(ROADS, other, BOX, answer="Tobias Wrenn").citations
    assert [set(claim.sources) for claim in cited.claims] == [{2, 3}]


def test_words_before_and_after_a_sentence_count_for_it() -> None:
    near = "Lady Catherine was tall. She lives at Rosings all the year. She is proud."
    far = "Mr. Collins dined at Rosings twice. It is a house in Kent."
    cited = trace_of(far, near, answer="Rosings", question="Where does Lady Catherine live?").citations
    assert cited.claims[0].sources[0] == 2


def test_yes_is_shown_by_what_the_question_asks() -> None:
    cited = trace_of(ROADS, BOX, answer="Yes.", question="Was the box sealed with lead?").citations
    assert [claim.sources for claim in cited.claims] == [(2,)]
    assert cited.unsupported_terms == ()


def test_the_answer_is_marked_and_words_like_mr_say_still_and_the_are_not() -> None:
    trace = trace_of(BOX, TOWN, answer="Mr. Dabney said that Tobias Wrenn still sealed the box.")
    assert marked(trace, trace.citations) == [["Dabney", "Tobias", "Wrenn", "Dabney"], ["Wrenn"]]


def test_names_and_numbers_of_the_answer_are_marked_outside_the_sentence_too_and_other_words_are_not() -> None:
    text = f"{BOX} In 1894 Wrenn had little lead left."
    trace = trace_of(text, ROADS, answer="Tobias Wrenn, with lead, in 1893 and 1894")
    assert marked(trace, trace.citations)[0] == ["Tobias", "Wrenn", "lead", "1893", "1894", "Wrenn"]


def test_words_names_and_numbers_that_no_source_has_are_said() -> None:
    trace = trace_of(ROADS, BOX, answer="Captain Silas Wrenn, on 4 May 1894, sealing the boxes with lead.")
    cited = trace.citations
    assert cited.unsupported_terms == ("Captain Silas", "4", "1894")
    cited_too = trace_of(ROADS, BOX, answer="Tobias Wrenn sealed the box with lead, in 1895.")
    assert list(answer_of(cited_too).notes()) == ["Not in the sources: 1895"]
    assert "\n\nNot in the sources: 1895\n\n" in markdown(answer_of(cited_too), Layout(context=0))
    assert as_json.answer(trace, memory_mb=0)["unsupported_terms"] == ["Captain Silas", "4", "1894"]


@pytest.mark.parametrize(
    ("answer", "unseen"),
    [
        ("Wrenn sealed it.", ()),  # inflected, function words
        ("The sealed box", ()),  # words of the question
        ("Yes, Wrenn.", ()),
        ("Le capitaine Wrenn a scellé la boîte avec du plomb en 1894.", ("1894",)),  # another language than the text's
        ("Le capitaine Wrenn a scellé la boîte avec du plomb en 1893.", ()),
        ("Mrs. Lavinia Goss. Silas too.", ("Mrs. Lavinia Goss", "Silas")),
        ("", ()),
    ],
)
def test_only_what_the_answer_adds_is_unseen(answer: str, unseen: tuple[str, ...]) -> None:
    assert trace_of(ROADS, BOX, answer=answer).citations.unsupported_terms == unseen


@pytest.mark.parametrize(
    ("text", "language", "answer", "unseen"),
    [
        ("She practised at the piano every morning.", "en", "Her constant practice.", ("constant",)),
        ("Il paraît que la boîte est à lui.", "fr", "Paraître avec la boîte.", ()),
        ("Silsbury and Martin were silent. Frederick left in 18935.", "en", "Silas, then Martina and Frederica in 18936.",
         ("Silas", "Martina", "Frederica", "18936")),
        ("Martin was silent, and the contract lost.", "en", "Martina. A contrast.", ("Martina", "contrast")),
    ],
)  # fmt: skip
def test_another_form_of_a_word_is_seen_and_another_name_is_not(
    text: str, language: str, answer: str, unseen: tuple[str, ...]
) -> None:
    assert trace_of(text, answer=answer, question="x", language=language).citations.unsupported_terms == unseen


SCAN = "Mr. Dabney said little. The box was sealed by Tobios Wren with lead in l893. It came from lronhythe, near Hul."


@pytest.mark.parametrize(
    ("answer", "unseen"),
    [
        ("Tobias", ()),  # one letter is another
        ("Ironhythe", ()),
        ("Tobiass", ("Tobiass",)),  # two
        ("Wrenn", ()),  # one is missing
        ("Wreyy", ("Wreyy",)),
        ("Hull", ("Hull",)),  # too short
        ("1893", ("1893",)),  # no word
    ],
)
def test_ocr_may_misread_one_letter_of_a_long_word(answer: str, unseen: tuple[str, ...]) -> None:
    scan = answer_of(trace_of(ROADS, SCAN, answer=answer, by_ocr=True))
    assert scan.unsupported_terms == unseen
    assert answer_of(trace_of(ROADS, SCAN, answer=answer)).unsupported_terms == (answer,)


def test_a_source_says_that_it_was_read_by_ocr() -> None:
    trace = trace_of(ROADS, SCAN, answer="Tobias", by_ocr=True)
    answer = answer_of(trace)
    assert "\n[1] 1.txt p. 1, read by OCR\n" in text(answer, Layout(context=0))
    assert "1.txt p. 1, read by OCR\n" in markdown(answer, Layout(context=0))
    assert [source["ocr"] for source in as_json.sources(trace, answer)] == [True, True]
    assert next(one_chunk(trace, 1, None)) == "chunk 2 of 2  1.txt p. 1, read by OCR"
    typed = trace_of(ROADS, BOX, answer="Tobias Wrenn")
    assert "OCR" not in text(answer_of(typed), Layout(context=0))
    assert [source["ocr"] for source in as_json.sources(typed, answer_of(typed))] == [False, False]


def test_scripts_without_spaces_are_cited_and_compared_by_pairs_of_characters() -> None:
    question, texts = "谁封了箱子？", ("船停在港口。大家都没睡。雨下到早晨。", "箱子由船长王明用铅封好。时间是1893年。")
    trace = trace_of(*texts, answer="船长王明", question=question, language="zh")
    cited = trace.citations
    assert [claim.sources for claim in cited.claims] == [(2,)]
    assert sentences(cited)[1] == "箱子由船长王明用铅封好。"
    assert cited.unsupported_terms == ()
    assert trace_of(*texts, answer="李刚，1894年", question=question, language="zh").citations.unsupported_terms == (
        "李刚",
        "1894",
    )


def test_a_list_without_sentences_shows_its_line() -> None:
    rows = "\n".join(f"row {i} of the register of the harbour master, {i} tons" for i in range(9))
    trace = trace_of(f"{rows}\nTobias Wrenn, watchmaker\n{rows}", answer="watchmaker", question="What was Tobias Wrenn?")
    assert sentences(trace.citations) == ["Tobias Wrenn, watchmaker"]


def test_a_sentence_is_not_cut_by_the_columns_of_its_characters() -> None:
    narrow = f"{'名簿は長く' * 60}印章は李剛が押した"  # 309 characters, 618 columns
    table = f"{narrow}\n{'表' * 500}"
    cited = trace_of(table, answer="李剛", question="印章は誰が押した?", language="ja").citations
    sentence = cited.evidence[0].sentence
    assert sentence
    assert (sentence.start, sentence.end) == (0, len(narrow))


def test_json_has_the_citations_beside_the_answer_and_the_place_of_each_sentence() -> None:
    trace = trace_of(ROADS, BOX.replace(". ", ".\n"), answer="Tobias Wrenn.")
    told = as_json.answer(trace, memory_mb=0)
    assert told["answer"] == "Tobias Wrenn."
    assert told["citations"] == [{"start": 0, "end": 13, "sources": [1]}]
    source = told["sources"][0]
    assert (source["start_line"], source["end_line"]) == (1, 5)
    text = trace.corpus.documents[1].text
    assert text[source["sentence"]["start_char"] : source["sentence"]["end_char"]].startswith("The box was sealed")
    assert (source["sentence"]["start_line"], source["sentence"]["end_line"]) == (3, 3)
    assert [(each["id"], each["rank"], each["relative_score"]) for each in told["sources"]] == [(1, 2, 0.5), (2, 1, 1.0)]


def test_markdown_refers_to_the_cited_sources_in_the_answer_and_to_the_others_in_a_line() -> None:
    trace = trace_of(ROADS, BOX, answer="Tobias Wrenn")
    told = markdown(answer_of(trace), Layout(context=0))
    assert told.startswith("Tobias Wrenn[^1]\n\nOther sources: [^2]\n\n[^1]: 1.txt:1\n\n    > The box was sealed")
    assert "\n\n[^2]: 0.txt" in told


def test_an_unsupported_answer_is_told_and_not_given() -> None:
    trace = replace(trace_of(ROADS, BOX, answer="Silas\x1b Pell\nof Greenock"), status="not_found")
    assert cited_answer(answer_of(trace)).text == "No answer found in the document."
    proposed = "Unsupported answer: Silas␛ Pell of Greenock (use --allow-unsupported to print it)"
    assert list(answer_of(trace).notes()) == list(answer_of(trace).notes(sources=False)) == [proposed]
    told = as_json.answer(trace, memory_mb=0)
    assert (told["answer"], told["citations"], told["unsupported_terms"]) == (None, [], [])
    assert told["unsupported_answer"] == trace.answer
    assert list(answer_of(replace(trace, answer="")).notes()) == []


def test_where_the_document_does_not_say_the_sentence_nearest_to_the_question_is_shown_and_not_the_rejected_answer() -> None:
    text = "A tall, mild gentleman was very seasick. So the captain came to be short of sleep. Nobody spoke. It rained."
    asked = trace_of(text, ROADS, answer="The tall, mild gentleman was seasick.", question="Why was the captain short of sleep?")
    trace = replace(asked, status="not_found")
    cited = trace.citations
    assert sentences(cited)[0] == "So the captain came to be short of sleep."
    assert marked(trace, cited)[0] == ["captain", "short", "sleep"]


def test_words_of_the_question_that_are_not_in_the_document_are_told_if_no_answer_was_found() -> None:
    trace = replace(trace_of(BOX, answer="Wrenn"), missing_terms=("horse", "Thax\x1bter_1_"))
    assert "horse" not in text(answer_of(trace), Layout(context=0))
    declined = replace(trace, status="not_found")
    assert answer_of(declined).missing_terms == "Not in the document: horse, Thax␛ter_1_"
    several = replace(trace_of(BOX, TOWN, answer="Wrenn"), missing_terms=("horse",), status="not_found")
    assert answer_of(several).missing_terms == "Not in the documents: horse"
    below = "No answer found in the document.\n\nNot in the document: horse, Thax␛ter\\_1\\_\n\n"
    assert markdown(answer_of(declined), Layout(context=0)).startswith(below)
    assert as_json.answer(trace, memory_mb=0)["missing_terms"] == ["horse", "Thax\x1bter_1_"]


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("Who sealed the box?", "No answer found in the document."),
        ("Capital of Peru?", "No answer found in the document."),
        ("Wrenn?", "No answer found in the document."),
        ("Who was Jean de la Fontaine?", "No answer found in the document."),
        ("Wer hat die Kiste versiegelt und wo ist sie?", "Das Dokument sagt dazu nichts."),
        ("Qui a scellé la boîte, et où est-elle ?", "Le document ne le dit pas."),
        ("¿Quién selló la caja de los relojes?", "El documento no lo dice."),
        ("谁封了箱子？", "文档中没有说明。"),
        ("箱を封印したのは誰ですか？", "文書には書かれていません。"),
        ("상자를 봉인한 사람은 누구입니까?", "문서에 나와 있지 않습니다."),
        ("Кто был тем, кто запечатал этот ящик?", "В документе об этом не сказано."),
    ],
)
def test_that_the_document_does_not_say_is_said_in_the_language_of_the_question(question: str, sentence: str) -> None:
    assert answer_of(replace(trace_of(BOX, answer=None, question=question), status="not_found")).text == sentence


def test_without_an_answer_the_sentence_is_that_of_the_sample_that_raised_the_chunk() -> None:
    trace = replace(test_passages.trace_of(BOX, "", "Wrenn sealed it with lead"), status="retrieved", answer=None)
    assert sentences(trace.citations) == ["The box was sealed by Tobias Wrenn with lead in 1893."]


def test_cited_sources_have_their_lines_and_the_others_their_locations() -> None:
    texts = [f"The box of pier {i} was open. It stood there all night, and nobody came to see what was in it." for i in range(8)]
    texts[7] = "The box was sealed by Tobias Wrenn with lead in 1893."
    trace = trace_of(*texts, answer="Tobias Wrenn")
    answer, cited, others = text(answer_of(trace), Layout(context=0)).split("\n\n")
    assert answer == "Tobias Wrenn [1]"
    assert cited == "[1] 7.txt:1\n    The box was sealed by Tobias Wrenn with lead in 1893."
    assert others == "also read: " + " · ".join(f"{number}.txt:1" for number in range(7))
    for more in (Layout(context=None), Layout(context=1, sources="all")):
        whole = text(answer_of(trace), more).splitlines()
        assert [line[:3] for line in whole if line.startswith("[")] == [f"[{number}]" for number in range(1, 9)]
        assert [line for line in whole if line.startswith("  > ")] == [f"  > {texts[7]}"]  # the only one that is evidence


def test_locations_in_one_document_are_one_line() -> None:
    passages = "\n\n".join(f"The box of pier {i} was open. It stood there all night, and nobody came." for i in range(3))
    trace = replace(test_passages.trace_of(passages, "Wrenn", "", 14), answer="Wrenn")
    assert text(answer_of(trace), Layout(context=0)).endswith("\n\nalso read: lines 3 · 5")


def test_a_source_that_shows_nothing_of_the_answer_has_no_marked_sentence() -> None:
    trace = trace_of("I did not see the Garefowl again.", "Nobody slept.", answer="Bromley", question="Who saw the Garefowl?")
    for colored in (True, False):
        shown = text(answer_of(trace), Layout(context=1, colored=colored))
        assert "\n\nClosest passage: 0.txt:1\n    I did not see the Garefowl again.\n\n" in shown


def test_if_nothing_is_cited_the_passage_closest_to_the_question_has_its_lines() -> None:
    texts = ["A tall, mild gentleman was very seasick.", "Nobody slept.", "That is how the captain came to be so short of sleep."]
    asked = trace_of(*texts, answer="Seasickness", question="Why was the captain short of sleep?")
    trace = replace(asked, status="not_found")
    lines = text(answer_of(trace), Layout(context=0)).splitlines()[4:]
    assert lines == [
        "Closest passage: 2.txt:1",
        f"    {texts[2]}",
        "",
        "also read: 0.txt:1 · 1.txt:1",
    ]


def test_a_second_fact_is_cited_by_the_name_that_the_first_one_gives() -> None:
    first = "The anchor that lost its fluke was forged at the Ironhythe works. It had a year on it."
    second = "The Ironhythe concern has been the property of Mrs. Lavinia Goss since 1882."
    other = "Mrs. Lavinia Goss wore a hat. It rained."
    question = "Who owns the works where the anchor that lost its fluke was forged?"
    cited = trace_of(first, other, second, answer="Mrs. Lavinia Goss", question=question).citations
    assert [claim.sources for claim in cited.claims] == [(3,)]
    assert trace_of(other, second, answer="Mrs. Lavinia Goss", question=question).citations.uncited


def test_the_name_of_a_file_supports_an_answer_beside_a_sentence_with_what_was_asked() -> None:
    trace = trace_of(
        "Phone: 555-0142. Works at the tannery.", "Phone: 555-0119. Works at the mill.", answer="Orla Finch",
        question="Whose phone is 555-0142?",
    )  # fmt: skip
    assert trace.citations.uncited
    assert trace.citations.unsupported_terms == ("Orla Finch",)
    labels = ["People/Orla Finch.md", "People/Ines Varga.md"]
    named = Corpus(
        tuple(replace(each, label=label) for each, label in zip(trace.corpus.documents, labels, strict=True)),
        trace.corpus.spans,
        300,
        "",
    )
    context = whole_chunks(named, range(2))
    cited = replace(trace.over(named), selection=replace(trace.selection, context=context)).citations
    assert [claim.sources for claim in cited.claims] == [(1,)]
    assert (cited.uncited, cited.unsupported_terms) == (False, ())
    assert sentences(cited)[0] == "Phone: 555-0142."


CONTRACT = (
    "# Contract with Alder Ltd\n\nAlder Ltd supplies bread to the canteen. It is called the supplier below.\n\n## 14 Ending the "
    "contract\n\nThe supplier and the canteen may end the contract with 90 days of notice, in writing."
)


def with_headings(trace: Trace) -> Trace:
    """The same trace of Markdown, whose headings are known."""
    content = Content(CONTRACT, sections=(Section("Contract with Alder Ltd", 1, 0), Section("14 Ending the contract", 2, 103)))
    document = replace(trace.corpus.documents[0], content=partial(itself, content))
    corpus = Corpus((document,), trace.corpus.spans, 300, "")
    return replace(trace.over(corpus), selection=replace(trace.selection, context=whole_chunks(corpus, [0])))


def test_a_heading_alone_is_cited_where_it_holds_half_of_the_question() -> None:
    longer = "Which contract has the longer notice period, the one with Alder or the one with Birch?"
    trace = trace_of(CONTRACT, answer="Alder", question=longer)
    assert sentences(trace.citations) == ["# Contract with Alder Ltd"]
    assert [claim.sources for claim in with_headings(trace).citations.claims] == [()]
    named = with_headings(trace_of(CONTRACT, answer="Alder Ltd", question="Whom is the contract with?"))
    assert [claim.sources for claim in named.citations.claims] == [(1,)]
    assert sentences(named.citations) == ["# Contract with Alder Ltd"]
    clause = with_headings(trace_of(CONTRACT, answer="90 days", question=longer))
    assert (sentences(clause.citations)[0] or "").startswith("The supplier and the canteen may end")
