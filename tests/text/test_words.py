import base64
import itertools
import random
import re
from collections.abc import Iterator
from time import process_time

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from uniseg.wordbreak import words as unicode_words

from fbrag_cli.text.languages import codes, stemmer_of
from fbrag_cli.text.sentences import sentence_spans
from fbrag_cli.text.words import count_words, cut, month_term, term_spans, terms, word_spans

WITHOUT_SPACES = regex.compile(r"[\p{Han}\p{Hiragana}\p{WB=Katakana}\p{LB=SA}]")
IN_A_WORD = regex.compile(r"[\p{WB=ALetter}\p{WB=Hebrew_Letter}\p{WB=Numeric}\p{WB=ExtendNumLet}]")

# What the rules of UAX #29 are about, so that few examples meet many of them.
TRICKY = st.text(st.sampled_from("abZ019_ .,:;'’\"-\u0301\u200d\u00adאב״·٫१कीि्é\n\r½ª한글🇦🇧🏳\u2028．․"), max_size=12)


def test_forms_of_a_word_are_one_term() -> None:
    assert terms("elopes ELOPED eloping") == ["elop"] * 3


def test_function_words_and_halves_of_contractions_are_no_terms() -> None:
    assert terms("She didn't say what it's about; they can’t") == ["say"]


def test_compatibility_forms_are_folded() -> None:
    assert terms("ﬁrst ＦＩＲＳＴ first") == ["first"] * 3


def test_accents_of_english_are_a_matter_of_taste() -> None:
    assert terms("naïve nai\u0308ve naive") == ["naiv"] * 3
    assert terms("Brontë's Bronte") == ["bront"] * 2


def test_abbreviations_numbers_and_names_of_sites() -> None:
    assert terms("U.S.A. USA 3.14 1,000,000 1000000") == ["usa", "usa", "3.14", "1000000", "1000000"]
    assert terms("Visit example.com at the end.Then stop") == ["visit", "exampl", "com", "end", "stop"]


@pytest.mark.parametrize(
    ("language", "text", "question"),
    [
        ("de", "in den alten Häusern der Straßen", "Haus STRASSE"),
        ("fr", "l'eau de l’océan", "eau océan"),
        ("ru", "о каменных мостах и ёлках", "каменный мост, елка"),
        ("el", "ΣΤΗΝ ΑΘΗΝΑ", "Αθήνας"),
        ("tr", "IRMAKLAR İstanbul'da", "ırmak istanbul"),
        ("hi", "किताबें पुलों", "किताब पुल"),
        ("ar", "والكِتَابُ كتــاب", "كتاب الكتاب"),
        ("fa", "كتاب‌ها ۱۲۳", "کتاب 123"),
        ("he", "שָׁלוֹם", "שלום"),
        ("zh", "人工智能的发展", "智能发展"),
        ("ja", "図書館のコンピューターで", "図書館 ｺﾝﾋﾟｭｰﾀｰ"),
        ("ko", "도서관에서 GPU를", "도서관은 GPU"),
        ("th", "ห้องสมุดประจำเมือง", "ห้องสมุด"),
        ("km", "បណ្ណាល័យក្រុង", "បណ្ណាល័យ"),
    ],
)
def test_a_question_finds_another_form_of_its_words(language: str, text: str, question: str) -> None:
    asked = terms(question, (language,))
    shared = set(asked) & set(terms(text, (language,)))
    assert len(shared) >= len(set(asked)) * 0.6


def test_vowel_signs_belong_to_their_word() -> None:
    text = "हिन्दी भाषा"
    assert [text[start:end] for start, end, _ in term_spans(text, ("hi",))] == ["हिन्दी", "भाषा"]


def test_chinese_words_are_found_in_the_middle_of_a_run_and_latin_ones_stay_whole() -> None:
    text = "我们用GPU加速模型。"
    found = {term: text[start:end] for start, end, term in term_spans(text, ("zh",))}
    assert found == {"我们": "我们", "们用": "们用", "gpu": "GPU", "加速": "加速", "速模": "速模", "模型": "模型"}


def test_pairs_keep_a_letter_and_its_signs_together() -> None:
    text = "น้ำใจ"
    assert [text[start:end] for start, end, _ in term_spans(text, ("th",))] == ["น้ำใ", "ใจ"]


def test_one_character_alone_is_a_term() -> None:
    assert terms("水", ("zh",)) == ["水"]


def test_an_unknown_language_has_neither_stems_nor_function_words() -> None:
    assert terms("The elopes", ("",)) == ["the", "elopes"]


def test_a_word_has_a_term_for_each_language_that_sees_it_otherwise() -> None:
    assert terms("Häuser", ("en", "de")) == ["hauser", "haus"]
    assert terms("die", ("en", "de")) == ["die"]  # a function word in German, none in English
    assert terms("人工", ("en", "zh")) == ["人工"]


@given(TRICKY | st.text(st.characters(max_codepoint=0x2FFF, exclude_categories=["Cn", "Sk"])))
def test_words_are_those_of_unicode(text: str) -> None:
    text = WITHOUT_SPACES.sub(" ", text).replace("\u202f", " ")  # white space always parts words here
    spans = {(start, end) for start, end, _ in term_spans(text, ("",))}
    for start, end in unicode_word_spans(text):
        inside = [(a, b) for a, b in spans if start <= a and b <= end]
        spans -= set(inside)
        plain = regex.fullmatch(r"[^.:．：․\p{Hangul}\p{Cf}\p{Mn}_']+", text[start:end])
        assert inside == [(start, end)] or not plain  # the others may be terms in part, or none
    assert not spans


def unicode_word_spans(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    for word in unicode_words(text):
        if IN_A_WORD.search(word):
            yield at, at + len(word)
        at += len(word)


@given(st.text() | TRICKY, st.sampled_from([("en",), ("zh",), ("",), ("tr", "de", "ar"), ("ko", "th")]))
def test_spans_are_the_terms_and_point_at_their_words(text: str, languages: tuple[str, ...]) -> None:
    spans = list(term_spans(text, languages))
    assert [term for _, _, term in spans] == terms(text, languages)
    assert all(term in terms(text[start:end], languages) for start, end, term in spans)
    assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in itertools.pairwise(spans))


@given(st.text(), st.sampled_from(sorted(filter(stemmer_of, codes()))))
def test_every_language_takes_any_text(text: str, language: str) -> None:
    assert all(terms(text, (language,)))


def test_hostile_words_come_to_an_end() -> None:
    for word in (
        "e" + "\u0301" * 50_000,
        "b'" * 50_000,
        "1," * 50_000,
        "(" * 50_000 + "日",
        "ก" + "่" * 50_000,
        "한" * 50_000,
        "a日" * 50_000,
    ):
        assert terms(word)
        assert cut(word, 300)
        assert cut(f"{word}. " * 3, 10)


@pytest.mark.parametrize("marks", ["\u0301\u0316", "\uff9e\u0301"])
def test_a_word_of_many_marks_takes_no_minutes(marks: str) -> None:
    word = "word" + marks * 100_000
    began = process_time()
    assert list(term_spans(f"{word} end")) == [(0, len(word), "word"), (len(word) + 1, len(word) + 4, "end")]
    assert terms("漢" + marks * 100_000)
    assert process_time() - began < 5


# Chunk lengths


def test_words_between_spaces_are_counted_as_they_stand() -> None:
    text = "One, two;  three-four\n(five) «шесть»"
    assert [text[start:end] for start, end in word_spans(text)] == text.split()
    assert cut(text, 2) == [(0, 9, 2), (11, 28, 2), (29, 36, 1)]


@pytest.mark.parametrize(
    ("text", "english_words"),  # Article 1 of the Universal Declaration of Human Rights, 30 words in English
    [
        ("人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。", 30),
        (
            "すべての人間は、生れながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを授けられており、"
            "互いに同胞の精神をもって行動しなければならない。",
            30,
        ),
        (
            "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม และควรปฏิบัติต่อกันด้วยเจตนารมณ์แห่งภราดรภาพ",
            30,
        ),
    ],
)
def test_a_text_without_spaces_counts_about_as_many_words_as_in_english(text: str, english_words: int) -> None:
    assert 0.6 * english_words <= sum(1 for _ in word_spans(text)) <= 1.4 * english_words


@given(st.text(st.sampled_from("日本語カ゚タ「」。、ABC 12ภาษาไทย่ำ\u0301\n")), st.integers(1, 5))
def test_chunks_hold_the_whole_text_and_cut_no_character_from_its_signs(text: str, n_words: int) -> None:
    chunks = cut(text, n_words)
    assert "".join("".join(text[start:end].split()) for start, end, _ in chunks) == "".join(text.split())
    assert all(words == n_words for _, _, words in chunks[:-1])
    whole = {found.start() for found in regex.finditer(r"\X", text)} | {len(text)}
    inside = [
        at
        for start, end, _ in chunks
        for at in (start, end)
        if not text[at - 1 : at].isspace() and not text[at : at + 1].isspace()
    ]
    assert set(inside) <= whole


# Ends of chunks


def sentence(words: int, end: str = ".") -> str:
    return " ".join(["Word"] + ["word"] * (words - 1)) + end


def lengths(text: str, n_words: int) -> list[int]:
    return [words for _, _, words in cut(text, n_words)]


@pytest.mark.parametrize(
    ("sentences", "expected"),
    [
        ([90, 90, 60], [90, 90, 60]),  # a tenth less is near enough,
        ([110, 110, 60], [110, 110, 60]),  # and so is a tenth more,
        ([89, 111, 60], [100, 100, 60]),  # but not a word less or more
        ([94, 5, 13, 80, 60], [99, 93, 60]),  # the nearest to 100: 94, 99 or 112
        ([30, 80], [110]),  # the end of the text is one of a sentence
        ([30, 81], [100, 11]),
    ],
)
def test_a_chunk_ends_with_the_sentence_that_ends_nearest_to_its_length(sentences: list[int], expected: list[int]) -> None:
    assert lengths(" ".join(map(sentence, sentences)), 100) == expected


def test_a_chunk_rather_ends_with_a_paragraph_than_with_a_heading_or_in_a_paragraph() -> None:
    text = f"{sentence(92)}\n\nA Heading of six words here\n\n{sentence(2)} {sentence(100)}"
    chunks = [text[start:end] for start, end, _ in cut(text, 100)]
    assert chunks == [sentence(92), text[len(sentence(92)) :].lstrip()]


def test_a_page_that_ends_in_mid_sentence_is_no_better_an_end_than_a_sentence() -> None:
    text = f"{sentence(93, '')}\n\n{sentence(6)} {sentence(100)}"
    assert lengths(text, 100) == [99, 100]


@pytest.mark.parametrize("n_words", [1, 2, 5, 9, 10, 300, 10**30])
def test_a_text_in_which_no_sentence_ends_has_chunks_of_exactly_that_length(n_words: int) -> None:
    assert set(lengths("word, " * 1300, n_words)[:-1]) <= {n_words}
    assert set(lengths("日" * 2600, n_words)[:-1]) <= {n_words}
    assert sum(lengths("word, " * 1300, n_words)) == sum(lengths("日" * 2600, n_words)) == 1300


@pytest.mark.parametrize(
    "text",
    [
        "他来到了城里。她说：“走吧！”大家都走了。",
        "彼は町に来た。「行こう！」と彼女は言った。",
        "वह शहर आया। उसने कहा चलो। ",
        "Он пришёл. «Идём!» Она ушла. ",
    ],
)
def test_chunks_end_with_sentences_in_every_script(text: str) -> None:
    text *= 40
    ends = {end for _, end in sentence_spans(text)}
    chunks = cut(text, 60)
    assert {end for _, end, _ in chunks} <= ends
    assert all(54 <= words <= 66 for _, _, words in chunks[:-1])


PROSE = st.lists(
    st.sampled_from(["Word", "word", "word,", "end.", "end!”", "Mr.", "\n", "\n\n", "日本。", "日本", "«", "3.5"]), max_size=200
)


@given(PROSE, st.integers(1, 40))
def test_every_end_is_the_best_within_a_tenth(pieces: list[str], n_words: int) -> None:
    text = " ".join(pieces)
    ends = {end for _, end in sentence_spans(text)}
    spans = list(word_spans(text))
    first = 0
    for start, end, words in cut(text, n_words)[:-1]:
        assert (start, end) == (spans[first][0], spans[first + words - 1][1])
        slack = n_words // 10
        near = {n: spans[first + n - 1][1] for n in range(n_words - slack, n_words + slack + 1)}
        assert words in near
        assert end in ends or (words == n_words and not ends & set(near.values()))
        first += words


# Long stretches without spaces


DICE = random.Random(5)
HEX = DICE.randbytes(20_000).hex()
BASE64 = base64.b64encode(DICE.randbytes(20_000)).decode()
#: Text that is no prose, its most tokens for a character (Qwen's vocabulary), and how its chunks end.
DENSE = {
    "base64 in lines": (re.sub("(.{76})", r"\1\n", BASE64), 0.76, "\n"),
    "base64 in one line": (BASE64, 0.76, ""),
    "hashes": (re.sub("(.{64})", r"\1\n", HEX), 0.9, "\n"),
    "names of objects": (re.sub("(.{24})", r"\1\n", HEX), 0.9, "\n"),
    "long numbers": ("".join(f"{DICE.random():.17f}{' ' if n % 8 else chr(10)}" for n in range(3000)), 1.0, "\n"),
    "times": ("".join(f"2026-11-27T18:{n % 60:02}:00.{n % 1000:03}Z\n" for n in range(3000)), 1.0, "\n"),
    "DNA": ("".join(DICE.choices("ACGT", k=40_000)), 0.54, ""),
    "JSON": ('{"id":12345,"name":"x"},' * 4000, 0.7, ","),
    "code": ("function(a,b){return(a+b)*c.length};" * 3000, 0.4, ";"),
    "addresses": ("https://www.example.org/a-harbor/and-its-light?id=71\n" * 900, 0.4, "\n"),
    "compounds": ("Donaudampfschifffahrtsgesellschaftskapitän " * 2000, 0.34, " "),
}


@pytest.mark.parametrize(("text", "tokens", "end"), DENSE.values(), ids=DENSE)
@pytest.mark.parametrize("n_words", [100, 300])
def test_text_that_is_no_prose_has_chunks_of_about_twice_the_tokens_of_prose(
    text: str, tokens: float, end: str, n_words: int
) -> None:
    chunks = cut(text, n_words)
    assert all((last - start) * tokens <= 3.4 * max(n_words, 250) for start, last, _ in chunks)  # prose has 1.35
    assert all((last - start) * tokens >= 0.3 * n_words for start, last, _ in chunks), "nor are they crumbs"
    assert "".join("".join(text[start:last].split()) for start, last, _ in chunks) == "".join(text.split())
    assert sum(end in text[last - 1 : last + 1] for _, last, _ in chunks) > 0.3 * len(chunks)
    assert all(n <= 1.5 * max(n_words, 250) for _, _, n in chunks)


@pytest.mark.parametrize("text", [each for each, _, _ in DENSE.values()], ids=DENSE)
def test_words_are_counted_as_chunks_count_them(text: str) -> None:
    counted = sum(n for _, _, n in cut(text, 300))
    assert count_words(text) == pytest.approx(counted, rel=0.15)
    assert count_words(text) > 1.5 * len(text.split())


def test_prose_counts_its_words() -> None:
    text = "On 27 November 2026 she paid 1,250 euros for the lamp. " * 9
    assert count_words(text) == len(text.split())
    assert count_words("他来到了城里。" * 9) == sum(1 for _ in word_spans("他来到了城里。" * 9))


def test_a_long_address_in_prose_is_one_word() -> None:
    text = f"{sentence(50)} https://example.org/{'a/b?c=d&' * 40} {sentence(49)} {sentence(100)}"
    assert lengths(text, 100) == [100, 100]
    assert lengths(f"one https://example.org/{'a' * 900} two", 3) == [3]


@pytest.mark.parametrize(
    ("text", "question", "language"),
    [
        ("Paid on 2025-12-03.", "December 2025", "en"),
        ("2025/12", "in December of 2025", "en"),
        ("12/2025", "December 2025", "en"),
        ("2025-12T10:30", "DECEMBER 2025", "en"),
        ("Bezahlt am 3.12.2025", "Dezember 2025", "de"),
        ("Rechnung 03.2024", "im März 2024", "de"),
        ("Payé le 2024-08-01", "en août 2024", "fr"),
        ("Pagado 02/2024", "febrero de 2024", "es"),
        ("Оплачено 2024-01-15", "в январе 2024 года", "ru"),
        ("Zapłacono 2024-12-15", "w grudniu 2024", "pl"),
        ("支付日期 2024-03-15", "2024年3月", "zh"),
        ("2024-12", "décembre 2024", ""),  # a table, whose language nothing shows
        ("Dezember 2024", "2024-12", ""),
        ("12/2024", "2024-12", "vi"),
    ],
)
def test_a_month_and_its_year_match_in_all_their_forms(text: str, question: str, language: str) -> None:
    shared = {*terms(text, (language,))} & {*terms(question, (language,))}
    (year,) = (term for term in shared if term.isdigit() and len(term) == 4)
    assert shared - {year}, "the month is shared too"
    assert terms(text, (language,)) == [term for _, _, term in term_spans(text, (language,))]


@pytest.mark.parametrize("text", ["03/04/2025", "12/31/2025", "1/2/2003", "12-2025-A", "2025-13", "3.14", "x12/2025"])
def test_an_uncertain_month_has_no_name(text: str) -> None:
    assert not {*terms(text)} & {month_term(f"{number:02}", "en") for number in range(1, 13)}
