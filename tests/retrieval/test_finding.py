"""What is asked is found in other forms, by what is around a passage, and beside near copies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted, Section
from fbrag_cli.indexing.collect import collect
from fbrag_cli.indexing.entry import ReadSettings
from fbrag_cli.indexing.walk import find_files
from fbrag_cli.methods.fb_rag.baselines import OrderPreserving
from fbrag_cli.methods.fb_rag.windows import windows_of
from fbrag_cli.query import Collection, Query
from fbrag_cli.render.passages import also_in, near_copies
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.retrieval.term_counts import count_terms
from fbrag_cli.storage.cache import NOWHERE
from fbrag_cli.surroundings import headings_of, names_in, notes_of
from fbrag_cli.text.term_forms import further_spans, further_terms
from fbrag_cli.text.words import terms
from fbrag_cli.trace import Trace
from tests.methods.scripted import tools
from tests.retrieval.finding_cases import prose, write


def document(text: str, language: str = "en", media_type: str = "text/plain", sections: tuple[Section, ...] = ()) -> Document:
    return Document.of("d", "d", Extracted(Content(text, (), sections), media_type), language=language)


def opened(*paths: Path) -> Collection:
    return collect(find_files([*map(str, paths)]).files, ReadSettings(), NOWHERE)


def asked(collection: Collection, question: str, select: int = 5) -> Trace:
    method = OrderPreserving(select=select)
    given = replace(tools(collection.corpus), retriever=collection.retriever)
    return method.retrieve(Query(question, collection, method), given)


def prompt(collection: Collection, question: str, select: int = 5) -> str:
    trace = asked(collection, question, select)
    return "\n\n".join(trace.method.passages(trace))


# -- other forms -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "question", "language"),
    [
        ("max_retry_count: 5", "retry", "en"),
        ("maxRetryCount = 5", "retries", "en"),
        ("HTTPServerError", "server", "en"),
        ("session.idleTimeout", "timeout", "en"),
        ("part KRW-114-WRK", "KRW114WRK", "en"),
        ("part KRW114WRK", "KRW-114-WRK", "en"),
        ("part AB12-34", "AB1234", "en"),
        ("2024-03-12T02:10:00Z failed", "12 March", "en"),
        ("2024-03-12", "March 12th", "en"),
        ("12 Mar 2024", "on the 12th of March", "en"),
        ("on March 12, 2024", "2024-03-12", "en"),
        ("9 May 2020", "2020-05-09", "en"),
        ("am 12.03.2024", "12. März", "de"),
        ("17.10.2021", "17 October", "en"),
        ("3/25/2024", "25 March", "en"),
        ("le 12 février 2020", "2020-02-12", "fr"),
        ("12 марта 2020", "12.03.2020", "ru"),
        ("3月12日", "2024-03-12", "zh"),
        ("12 500 euros", "12500", "fr"),
        ("12\u202f500 euros", "12 500", "fr"),
        ("12,500 euros", "12500", "en"),
        ("12500 euros", "12 500", "en"),
        ("10kg", "10 kg", "en"),
        ("10 kg", "10kg", "en"),
        ("1.25kg", "1.25", "en"),
        ("10кг", "10 кг", "ru"),
        ("FY2024", "2024", "en"),
        ("１２月３日", "2024-12-03", "zh"),
        ("閱讀", "阅读", "zh"),
        ("会议", "會議", "zh"),
        ("the o\ufb03ce", "office", "en"),
        ("off\u00adshore", "offshore", "en"),
    ],
)
def test_forms_of_a_word_meet(text: str, question: str, language: str) -> None:
    assert BM25.of(build_corpus([document(text, language)])).scores(question)[0] > 0


@pytest.mark.parametrize(
    ("text", "question", "language"),
    [
        ("1.25 liters", "125", "en"),
        ("125 liters", "1.25", "en"),
        ("12.5 and 500", "12500", "en"),
        ("version v2.1", "2 January", "en"),
        ("on 03/04/2024", "3 April", "en"),  # or March 4
        ("Section 12 may be left out", "12 May", "en"),
        ("a3f9c2e1b8d4f6a7", "9", "en"),
        ("12 13 14 500 columns", "12 March", "en"),
        ("the MP4/11", "an MP", "en"),
        ("an A380", "380 seats", "en"),
    ],
)
def test_what_is_another_thing_does_not_meet(text: str, question: str, language: str) -> None:
    assert not {*further_terms(question), *terms(question)} & {*further_terms(text, (language,))}


def test_further_terms_count_neither_in_lengths_nor_in_the_mean() -> None:
    plain, odd = ("The server waits. " * 20 + word for word in ("retry", "max_retry_count"))
    counts = [count_terms(build_corpus([document(text)])) for text in (plain, odd)]
    assert counts[0].lengths.tolist() == counts[1].lengths.tolist()
    texts = [f"storm rope {word} chart anchor" for word in "abcd"]
    without = BM25.of(build_corpus([document(text + " harbour") for text in texts]))
    with_parts = BM25.of(build_corpus([document(text + " harbour" + " a_part_of_it" * (i == 3)) for i, text in enumerate(texts)]))
    assert with_parts.scores("rope storm")[0] == pytest.approx(without.scores("rope storm")[0], rel=0.2)


_IN_OTHER_FORMS = {
    "retry limit": "max_retry_count is set.",
    "12 March": "The ship left on 2024-03-12.",
    "KRW114W": "The part is KRW-114-W.",
    "10 kg": "A load of 10kg came.",
}


@pytest.mark.parametrize(("question", "told"), _IN_OTHER_FORMS.items())
def test_windows_are_found_by_other_forms(question: str, told: str) -> None:
    text = "\n\n".join(f"{prose(each, 10)}\n\n{each}" for each in _IN_OTHER_FORMS.values())
    corpus = build_corpus([document(text)], 200)
    windows = [window for chunk in corpus.chunks for window in windows_of(chunk, 20)]
    best = windows[BM25.of(corpus).excerpt_scores([question], windows)[0].argmax()]
    assert told in best.text


def test_no_further_term_in_plain_prose() -> None:
    assert further_terms(prose("x", 100)) == []
    assert [*further_spans("It was 12 March 2024.")] == [(7, 15, "03-12")]


def test_a_question_in_another_form_misses_no_word() -> None:
    bm25 = BM25.of(build_corpus([document("max_retry_count: 5kg of 2024-03-12 and 12\u00a0500")]))
    assert bm25.missing_terms("retry 5 kg, 12500?") == ()
    assert bm25.missing_terms("retry 7t?") == ("7t",)


def test_it_is_said_which_words_meet() -> None:
    bm25 = BM25.of(corpus := build_corpus([document("2024-03-12T02:10 max_retry_count failed"), document("Nothing here.")]))
    met = [(asked, held) for asked, held, _ in bm25.matches("Why did retry 3 fail on 12 March?", corpus.chunks[0])]
    assert ("12 March", "2024-03-12") in met
    assert ("retry", "max_retry_count") in met
    assert ("fail", "fail") in met
    scores = [score for *_, score in bm25.matches("12 March", corpus.chunks[0])]
    assert sum(scores) == pytest.approx(float(bm25.scores("12 March")[0]), abs=1e-5)


# -- half of the passages ----------------------------------------------------------------------------------------------------


def test_a_word_of_exactly_half_of_the_files_matches_and_ranks(tmp_path: Path) -> None:
    for i in range(24):
        name = prose(i, 6)
        (tmp_path / f"{i:02}.txt").write_text(f"The notice period is {i} days. {name}" if i % 2 else name)
    trace = asked(opened(tmp_path), "What is the notice period?")
    assert trace.warnings == ()
    assert all("notice period" in passage.text for passage in trace.context)


# -- surroundings ------------------------------------------------------------------------------------------------------------


def test_names_of_folders_count_and_are_told_once(tmp_path: Path) -> None:
    for name in ("Alder", "Birch", "Hazel", "Oak"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "contract.md").write_text(f"The notice period is {len(name)} months and {name[::-1]} signs.")
        (tmp_path / name / "visits.md").write_text("\n\n".join([prose(name, 60), prose((name, 2), 60)]))
    collection = opened(tmp_path)
    trace = asked(collection, "What is the notice period of Hazel?", 1)
    assert "lezaH" in trace.context[0].text
    assert "Oak" not in collection.retriever.missing_terms("Which contract has Oak?")
    read = prompt(collection, "Who visited Oak for the gates?", 4)
    assert read.count("Oak/visits.md") == 1


@pytest.mark.parametrize(("question", "told"), [("What did Hazel sign on 12 March?", True), ("Who waits?", False)])
def test_the_name_of_the_only_file_is_told_if_the_question_has_it(tmp_path: Path, question: str, told: bool) -> None:
    path = tmp_path / "2024-03-12 Hazel.txt"
    path.write_text("The ferry waits at the bridge.")
    collection = opened(path)
    assert ("2024-03-12 Hazel.txt" in prompt(collection, question)) is told
    assert asked(collection, "Hazel?").warnings == ()
    assert collection.retriever.missing_terms("Hazel?") == ()


def test_a_prompt_of_prose_is_its_text(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text(prose("book", 200))
    trace = asked(opened(path), "Who visited the chapel?", 2)
    assert trace.method.passages(trace) == [passage.text for passage in trace.context]


MAIL = "From: Hanna Weiss <h@example.org>\nTo: b@example.org\nSubject: Roof\nDate: Mon, 09 May 2022 10:00:00 +0000\n\n"


def test_the_sender_and_the_date_of_a_mail_are_with_each_of_its_passages(tmp_path: Path) -> None:
    for i, sender in enumerate(("Hanna Weiss", "Piet Vos", "Lucia Reyes")):
        head = MAIL.replace("Hanna Weiss", sender).replace("09 May", f"{9 + i} May")
        (tmp_path / f"{i}.eml").write_text(f"{head}{prose(i, 60)}\n\nThe offer is {i}00 euros.\n")
    collection = opened(tmp_path)
    assert "The offer is 100 euros" in prompt(collection, "Which offer did Piet Vos make?", 1)
    assert "The offer is 200 euros" in prompt(collection, "Which offer was made on 11 May 2022?", 1)
    read = prompt(collection, "Which offer did Piet Vos make?", 1)
    assert "From: Piet Vos" in read
    assert "Date: " in read


def test_headings_above_a_passage_count_and_are_told_once_a_section() -> None:
    text, sections = "Handbook\n\n", [Section("Handbook", 1, 0)]
    for machine in ("Crane", "Kiln", "Loom"):
        sections.append(Section(machine, 2, len(text)))
        text += f"{machine}\n\n"
        for task in ("Cleaning", "Storage"):
            sections.append(Section(task, 3, len(text)))
            text += f"{task}\n\n{prose((machine, task), 60)}\n\nThis takes {len(text)} minutes.\n\n"
    found = document(text, sections=tuple(sections))
    corpus = build_corpus([found])
    last = max(chunk.position for chunk in corpus.chunks if chunk.start < text.index("Loom\n\n"))
    assert headings_of(found, corpus.chunks[last].start, corpus.chunks[last].end) == ["Kiln", "Storage"]
    collection = Collection(corpus, BM25.of(corpus))
    read = prompt(collection, "How many minutes does storage of the kiln take?", 3)
    assert read.count("Kiln > Storage") == 1


NOTED = "The tax was hated{0}. It fell on salt.\n\n" + prose("tax", 60) + "\n\nThe keeper had a cow{1}.\n\n" + prose("cow", 60)


@pytest.mark.parametrize(
    ("marks", "notes"),
    [
        (("^1", "^2"), "1. Fourpence a ton.\n2. And a pig."),
        (("^1", "^2"), "1 Fourpence a ton.\n2 And a pig."),
        (("[^a]", "[^b]"), "[^a]: Fourpence a ton.\n[^b]: And a pig."),
        (("^1", "^3"), "1. Fourpence a ton.\n2. Gone.\n3. And a pig."),
    ],
)
def test_a_note_is_found_and_read_with_its_mark(marks: tuple[str, str], notes: str) -> None:
    found = document(f"{NOTED.format(*marks)}\n\n{prose('end', 60)}\n\nNotes\n\n{notes}\n")
    assert "Fourpence" in notes_of(found, 0, 100)[0]
    corpus = build_corpus([found])
    collection = Collection(corpus, BM25.of(corpus))
    assert "Fourpence a ton" in prompt(collection, "How high was the hated tax on salt?", 1)
    assert collection.retriever.scores("fourpence")[0] > 0


def test_a_power_is_no_mark_and_a_list_no_note() -> None:
    assert notes_of(document("A room of 20 km^2, where x^2 is.\n\n1. Bread.\n2. Salt.\n3. Oil.\n"), 0, 30) == []
    assert notes_of(document("The first^1 and the other^1.\n\n1. A.\n1. B.\n1. C."), 0, 12) == []


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("the Rural Electrification and Water Resilience (REWR) is", {"REWR": "Rural Electrification and Water Resilience"}),
        ("by REWR (Regional Emergency Water Reserve)", {"REWR": "Regional Emergency Water Reserve"}),
        ("the Federal Bureau of Investigation (FBI)", {"FBI": "Federal Bureau of Investigation"}),
        ("of the world (WWII)", {}),
        ("she said (Anna Moor)", {}),
        ("in the year (1990)", {}),
        ("a list (see Table IV)", {}),
    ],
)
def test_letters_stand_for_words(text: str, pairs: Mapping[str, str]) -> None:
    assert dict(names_in(document(text))) == pairs


def test_either_form_of_a_name_finds_passages_of_the_other() -> None:
    text = f"The Inland Waterways Fund (IWF) is old.\n\n{prose('a', 60)}\n\nThe IWF is paid by the mills.\n\n{prose('b', 60)}"
    text += "\n\nAgain the Inland Waterways Fund sold a boat."
    bm25 = BM25.of(corpus := build_corpus([document(text)]))
    held = [chunk.position for chunk in corpus.chunks if "IWF is paid" in chunk.text]
    assert bm25.scores("inland waterways")[held[0]] > 0
    assert bm25.scores("IWF")[-1] > 0
    many = " ".join(f"Alpha{chr(97 + i // 26)}{chr(97 + i % 26)} Beta Gamma (AB{chr(65 + i % 26)}{i})." for i in range(500))
    assert len(names_in(document(many))) <= 200


@pytest.mark.parametrize(
    ("text", "question", "meets"),
    [
        ("The IWF\nwaits.", "waterways", True),
        ("Two IWFs wait.", "waterways", True),
        ("The inland\nwaterways fund waits.", "IWF", True),
        ("The Inland Waterways Funds wait.", "IWF", True),
        ("The iwf waits.", "waterways", False),  # "PRO" is not "pro"
        ("Inland is a fund of waterways.", "IWF", False),
        ("A fund has inland waterways.", "IWF", False),
    ],
)
def test_letters_are_met_as_written_and_words_next_to_each_other(text: str, question: str, meets: bool) -> None:
    corpus = build_corpus([document(f"The Inland Waterways Fund (IWF) is old.\n\n{prose('a', 60)}\n\n{text}\n\n{prose('b', 9)}")])
    (held,) = (chunk.position for chunk in corpus.chunks if text in chunk.text)
    assert held
    assert bool(BM25.of(corpus).scores(question)[held]) is meets


def test_both_forms_in_a_passage_count_once() -> None:
    corpus = build_corpus([document(f"The Inland Waterways Fund (IWF) is old.\n\n{prose('a', 60)}")])
    counts = count_terms(corpus)
    columns = zip(counts.vocabulary, counts.starts[:-1], counts.starts[1:], strict=True)
    held = {term.decode(): counts.counts[start:end].tolist() for term, start, end in columns}
    assert held["iwf"] == held["waterway"] == held["fund"] == [1]


# -- near copies -------------------------------------------------------------------------------------------------------------


def test_drafts_take_one_place_and_it_is_said(tmp_path: Path) -> None:
    for i in range(7):
        (tmp_path / f"draft {i}.md").write_text(
            f"# Rules, draft {i}\n\nThe fee of a member is forty euros. {prose('same', 12)} "
            f"Nobody {'pays' if i % 2 else 'gives'} more."
        )
    (tmp_path / "decision.md").write_text(f"# Decision\n\n{prose('other', 30)} From now on the fee is fifty euros.")
    trace = asked(opened(tmp_path), "How high is the fee of a member?", 2)
    assert {Path(passage.document.name).name for passage in trace.context} > {"decision.md"}
    (shown,) = (passage for passage in trace.context if "forty" in passage.text)
    assert len(near_copies(trace, shown)) + len(trace.selection.duplicates[shown.position]) >= 6
    assert "near cop" in also_in(trace, shown)


@pytest.mark.parametrize(
    ("n", "differs"),
    [(200, "The rent is {0} euros."), (30, "{1} rents it."), (30, "It is unit {0}b."), (30, "Until 2{0}-05-01.")],
)
def test_leases_that_differ_in_a_name_or_number_stay_apart(tmp_path: Path, n: int, differs: str) -> None:
    for i in range(n):
        told = differs.format(400 + i, f"Tenant{chr(65 + i % 26)}{chr(97 + i // 26)}")
        (tmp_path / f"{i:03}.txt").write_text(f"A lease of a shed. {prose('lease', 8)} {told}")
    trace = asked(opened(tmp_path), "What is in the lease of the shed?")
    assert len(trace.context) == 5
    assert not any(trace.selection.duplicates.values())


@pytest.mark.parametrize(
    "dates",
    [
        ("2023-11-05", "2024-03-12", "2024-02-28"),
        ("20231105", "20240312", "20240228"),
        ("2023-11", "2024-03", "2024-02"),
        ("2022", "2024", "2023"),
        ("minutes 5 November 2023", "minutes 12 March 2024", "minutes 28 February 2024"),
    ],
)
@pytest.mark.parametrize("in_name", [True, False])
def test_of_equal_near_copies_the_newest_is_read(tmp_path: Path, dates: tuple[str, ...], in_name: bool) -> None:
    for i, (date, word) in enumerate(zip(dates, ("pays", "gives", "sends"), strict=True)):
        head, name = ("Rules", f"{date}.md") if in_name else (f"Rules {date}", f"draft {'abc'[i]}.md")
        (tmp_path / name).write_text(f"# {head}\n\nThe fee of a member is forty euros. {prose('same', 12)} Nobody {word} more.")
    (shown,) = asked(opened(tmp_path), "How high is the fee of a member?", 2).context
    assert "gives" in shown.text


def test_a_date_does_not_hide_a_better_copy(tmp_path: Path) -> None:
    for date, more in (("2023-11-05", "The fee is high."), ("2024-03-12", "The gate is high.")):
        (tmp_path / f"{date}.md").write_text(f"The fee of a member is forty euros. {prose('same', 12)} {more}")
    (shown,) = asked(opened(tmp_path), "How high is the fee of a member?", 2).context
    assert "fee is high" in shown.text


def test_a_copy_that_has_a_word_of_the_question_alone_is_read() -> None:
    texts = [f"The harbour board met. {prose('same', 30)} It spoke of {word}." for word in ("tar", "tar", "rope", "tar")]
    corpus = build_corpus([document(text) for text in texts])
    assert len(asked(Collection(corpus, BM25.of(corpus)), "What did the harbour board say of rope?").context) == 2


# -- the questions -----------------------------------------------------------------------------------------------------------


def test_what_was_asked_before_the_rules_is_found(tmp_path: Path) -> None:
    """All 50 questions of finding_cases.py, also those that were kept for the end; 24 before the rules."""
    questions = write(tmp_path)
    collections = {name: opened(tmp_path / name) for name in dict.fromkeys(each.files for each in questions)}
    assert [each.text for each in questions if each.evidence not in prompt(collections[each.files], each.text)] == []


@pytest.mark.parametrize("number", ["d09", "d23", "d24", "d28", "d29", "d31", "d32"])
def test_cases_of_public_reports_are_read(shared: Path, number: str) -> None:
    folder = shared / "cases" / "second"
    lines = (folder / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    case = next(each for each in map(json.loads, lines) if each["id"] == number)
    assert case["rank_first"] in prompt(opened(*(folder / each for each in case["files"])), case["question"])
