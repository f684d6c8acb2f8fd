"""Values of answers, as contracts say them: what is certain is read, the rest stays empty."""

from __future__ import annotations

import pytest

from fbrag_cli.batch.values import checked_type, value_of


@pytest.mark.parametrize(
    ("answer", "language", "value"),
    [
        ("EUR 18,400 per quarter", "en", 18400),
        ("1.234,5", "de", 1234.5),
        ("1,234.5", "en", 1234.5),
        ("GBP 2,450.00", "en", 2450),
        ("Die Miete beträgt 1.200,50 EUR.", "de", 1200.5),
        ("12 400 euros", "fr", 12400),
        ("12\u202f400,5 €", "fr", 12400.5),
        ("CHF 1'250'000", "en", 1250000),
        ("thirty (30) days", "en", 30),
        ("30-day notice; 30 days", "en", 30),
        ("-5%", "en", -5),
        ("$900.", "en", 900),
        ("1.234,5", "en", None),  # written in another language
        ("1,234.5", "de", None),
        ("12,34,567", "en", None),
        ("1.5 million pounds", "en", None),
        ("3 Mio. EUR", "de", None),
        ("2 Millionen", "de", None),
        ("two weeks", "en", None),
        ("between 5 and 10", "en", None),
        ("2 years and 6 months", "en", None),
        ("30 days, unless the tenant agrees", "en", None),
        ("30 Tage, sofern der Mieter zustimmt", "de", None),
        ("EUR 500, außer im Mai", "de", None),
        ("1 March 2027", "en", None),
        ("A380", "en", None),
        ("the 12th", "en", None),
        ("1" * 5000, "en", None),
        ("1.1.2024", "de", None),
    ],
)
def test_numbers(answer: str, language: str, value: float | None) -> None:
    assert repr(value_of(answer, "number", language)) == repr(value)  # 2450, not 2450.0


@pytest.mark.parametrize(
    ("answer", "language", "value"),
    [
        ("31 March 2027", "en", "2027-03-31"),
        ("on March 31st, 2027.", "en", "2027-03-31"),
        ("the 1st of Sept. 2026", "en", "2026-09-01"),
        ("31. März 2027", "de", "2027-03-31"),
        ("Am 1. Jan. 2026", "de", "2026-01-01"),
        ("31 de marzo de 2027", "es", "2027-03-31"),
        ("3 марта 2027 г.", "ru", "2027-03-03"),
        ("2027-03-31", "en", "2027-03-31"),
        ("03.04.2025", "de", "2025-04-03"),
        ("31/03/2027", "en", "2027-03-31"),
        ("12/31/2026", "en", "2026-12-31"),
        ("04/04/2026", "en", "2026-04-04"),
        ("2027年3月31日", "ja", "2027-03-31"),
        ("03/04/2025", "en", None),  # in March or in April
        ("31 February 2027", "en", None),
        ("March 2027", "en", None),
        ("from 1 March 2026 to 28 February 2027", "en", None),
        ("from March 2025 to 1 April 2027", "en", None),
        ("31 March 2027, unless extended", "en", None),
        ("12 may 20000", "en", None),
        ("5 men 2027", "en", None),
    ],
)
def test_dates(answer: str, language: str, value: str | None) -> None:
    assert value_of(answer, "date", language) == value


@pytest.mark.parametrize(
    ("answer", "language", "value"),
    [
        ("Yes", "en", True),
        ("No, the tenant may not sublet.", "en", False),
        ("Ja.", "de", True),
        ("Nein, das ist nicht erlaubt.", "de", False),
        ("No later than 30 days", "en", None),
        ("Yes, but only with consent", "en", None),
        ("Ja, wenn der Vermieter zustimmt", "de", None),
        ("The tenant may not sublet.", "en", None),
    ],
)
def test_yes_or_no(answer: str, language: str, value: bool | None) -> None:
    assert value_of(answer, "yes-no", language) is value


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("English law", "English"),
        ("the law of New York", "New York"),
        ("New York or English law", None),
        ("German law", None),
        ("englisch", None),
        ("English law, unless agreed otherwise", None),
        ("York", "York"),
    ],
)
def test_choices(answer: str, value: str | None) -> None:
    assert value_of(answer, "English;New York;York", "en") == value


def test_a_condition_in_the_sentence_that_shows_the_answer() -> None:
    sentence = "It may be ended with 14 days' notice, unless the rent is in arrears."
    assert value_of("14 days", "number", "en", sentence) is None
    assert value_of("14 days", "number", "en", "It may be ended with 14 days' notice.") == 14
    assert value_of("Yes", "yes-no", "en", "The tenant may sublet only if the owner agrees.") is None


def test_text_is_the_answer() -> None:
    assert value_of(" Ann Lee, if she agrees\n", "text", "en") == "Ann Lee, if she agrees"


@pytest.mark.parametrize("wrong", ["numbers", "a;", ";", "a;A", "a;;b"])
def test_a_type_that_is_none(wrong: str) -> None:
    with pytest.raises(ValueError, match="expected text, number, date, yes-no, or choices such as low;high"):
        checked_type(wrong)


def test_a_type_as_it_is_typed() -> None:
    assert [checked_type(each) for each in ("Yes-No", "low ; high")] == ["yes-no", "low;high"]
