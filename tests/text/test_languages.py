import json
import random
from pathlib import Path

import pytest
import Stemmer

from fbrag_cli.errors import FbragError
from fbrag_cli.text.languages import (
    _SCRIPTS,
    _languages,
    asks_for_many,
    codes,
    detect,
    foreign_language,
    months_of,
    name_of,
    resolve,
    sentence,
    stemmer_of,
    stop_words,
)
from fbrag_cli.text.words import month_term, term_of

NOTICES = json.loads((Path(__file__).parents[1] / "benchmarks" / "notices.json").read_text(encoding="utf-8"))

# Paragraphs of our own, close relatives side by side.
PARAGRAPHS = {
    "en": "The ferry to the island leaves at noon, and those who come too late will have to wait until the evening.",
    "de": "Die Fähre zur Insel fährt am Mittag ab, und wer zu spät kommt, muss bis zum Abend auf die nächste warten.",
    "nl": "De veerboot naar het eiland vertrekt om twaalf uur, en wie te laat komt moet tot de avond op de volgende wachten.",
    "fr": "Le bateau pour l'île part à midi, et ceux qui arrivent trop tard doivent attendre jusqu'au soir.",
    "es": "El barco para la isla sale al mediodía, y los que llegan tarde tienen que esperar hasta la noche.",
    "pt": "O barco para a ilha parte ao meio-dia, e quem chega tarde tem de esperar até à noite pelo seguinte.",
    "it": "Il battello per l'isola parte a mezzogiorno, e chi arriva tardi deve aspettare fino alla sera.",
    "sv": "Färjan till ön går vid middagstid, och den som kommer för sent får vänta på nästa till kvällen.",
    "da": "Færgen til øen sejler ved middagstid, og den, der kommer for sent, må vente på den næste til om aftenen.",
    "pl": "Prom na wyspę odpływa w południe, a kto się spóźni, ten musi czekać na następny do wieczora.",
    "cs": "Přívoz na ostrov odjíždí v poledne, a kdo přijde pozdě, ten musí čekat na další až do večera.",
    "tr": "Adaya giden vapur öğlen kalkıyor ve geç kalanlar bir sonraki için akşama kadar beklemek zorunda.",
    "ru": "Паром на остров уходит в полдень, и тот, кто опоздает, должен ждать следующего до самого вечера.",
    "uk": "Пором на острів відходить опівдні, і той, хто запізниться, має чекати на наступний аж до вечора.",
    "fa": "کشتی جزیره ظهر حرکت می‌کند و کسانی که دیر برسند باید تا شب برای کشتی بعدی صبر کنند.",
    "zh": "去岛上的渡船中午开，来晚的人要等到晚上。",
    "he": "המעבורת לאי יוצאת בצהריים, ומי שמאחר צריך לחכות לבאה עד הערב.",
}


@pytest.mark.parametrize("language", PARAGRAPHS)
def test_a_paragraph_tells_its_language(language: str) -> None:
    assert detect(PARAGRAPHS[language]) == language


@pytest.mark.parametrize("language", NOTICES)
def test_a_page_tells_its_language(language: str) -> None:
    assert detect("\n".join(NOTICES[language]["notices"])) == language


def test_an_english_licence_before_a_text_does_not_count() -> None:
    license = " ".join(NOTICES["en"]["notices"])
    book = "\n".join(random.Random(1).choices(NOTICES["ru"]["notices"], k=200))
    assert detect(license + book) == "ru"


def test_english_terms_in_a_japanese_text_do_not_count() -> None:
    assert detect("この GPU は Linux の driver で動きます。詳しくは README を読んでください。") == "ja"


@pytest.mark.parametrize("text", ["", "1234 5678", "!?", "🙂", "\ud800"])
def test_no_words_no_language(text: str) -> None:
    assert detect(text) == ""


@pytest.mark.parametrize(
    "line",
    [
        "Die steel H13, casting die, forging die, die life 90,000 shots. Die in press {}.",
        "La Paz {}, Los Angeles, La Plata, Los Alamos",
        "10:{} es node es shard green",
        "order {}, Van Gogh print, Den Haag, van Dijk",
    ],
)
def test_a_list_with_two_words_that_are_function_words_elsewhere_has_no_language(line: str) -> None:
    assert detect("\n".join(line.format(number) for number in range(20))) == ""


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Die Katze schläft auf dem Sofa.", "de"),
        ("Wo ist das Haus?", "de"),
        ("Die Rechnung ist am 3. Mai fällig und wurde bezahlt.\n" * 20, "de"),
        ("Кто запечатал ящик, и когда?", "ru"),
    ],
)
def test_a_short_text_tells_its_language_by_fewer_words(text: str, language: str) -> None:
    assert detect(text) == language


@pytest.mark.parametrize("asked", ["de", "DE", "german", " German ", "de-AT", "de_CH"])
def test_a_language_is_known_by_code_and_name(asked: str) -> None:
    assert resolve(asked) == "de"


def test_an_unknown_language_is_a_usage_error_that_says_what_to_give() -> None:
    with pytest.raises(FbragError, match="unknown language: 'Klingon'") as raised:
        resolve("Klingon")
    assert raised.value.code == "usage"
    assert "German" in (raised.value.hint or "")


@pytest.mark.parametrize("code", codes())
def test_every_language_is_complete(code: str) -> None:
    assert resolve(code) == resolve(name_of(code)) == code
    needs_words = stemmer_of(code) or any(code in known and len(known) > 1 for known in _SCRIPTS.values())
    assert stop_words(code) or not needs_words, "words show its language, or are no terms, and there are none"
    assert stemmer_of(code) in ("", *Stemmer.algorithms())
    entry = _languages()[code]
    questions = ("asking_words", "whole_words", "comparing_words", "referring_words")
    lists = ("function_words", "yes_and_no", "condition_words", "months", "page_words", "section_words", *questions)
    assert entry.keys() <= {"name", "stemmer", "not_found", "not_sure", *lists}
    assert ("not_found" in entry) == ("not_sure" in entry)
    assert entry.get("not_sure", ":")[-1] in ":："
    assert entry.get("not_found", ".")[-1] in ".।。"
    for words in (entry.get(key, "") for key in lists):
        assert len({*words.split()}) == len(words.split()), "a word stands twice"
        assert words == words.lower()


def test_every_script_has_languages_that_are_known() -> None:
    assert {code for known in _SCRIPTS.values() for code in known} == set(codes())


def test_a_language_without_a_sentence_says_it_in_english() -> None:
    assert sentence("de", "not_sure") == "Nicht sicher:"
    assert sentence("mk", "not_sure") == sentence("", "not_sure") == "Low confidence:"


def test_a_text_in_another_language_is_known_as_foreign() -> None:
    for language in ("de", "fr", "es", "ru", "fa", "en"):
        assert foreign_language(PARAGRAPHS[language], (language,)) == ""
        assert foreign_language(PARAGRAPHS[language], ("zh",)) == language
        assert foreign_language(PARAGRAPHS[language], ("zh", language)) == ""
    assert foreign_language(PARAGRAPHS["en"], ("fr",)) == "en"
    assert foreign_language(PARAGRAPHS["fr"], ("en",)) == "fr"
    assert foreign_language("Wer wrote: " + PARAGRAPHS["en"], ("de",)) == "en"
    assert foreign_language("船长 said that the ship was 沉没 in the bay，船员获救。", ("zh",)) == "en"


@pytest.mark.parametrize(
    "text", ["civil war", "die war", "Los Angeles, La Paz", "IT and AI", "who", "The Who", "", "12 34", "Der Ring"]
)
def test_names_and_headings_are_not_foreign(text: str) -> None:
    for languages in (("en",), ("zh",), ("fr", "zh"), ("",)):
        assert foreign_language(text, languages) == ""


def test_languages_have_names() -> None:
    assert [name_of(code) for code in ("zh", "el", "", "xx")] == ["Chinese", "Greek", "", ""]


@pytest.mark.parametrize("code", [code for code in codes() if months_of(code)])
def test_months_have_twelve_names_and_as_many_terms(code: str) -> None:
    found = [month_term(f"{number:02}", code) for number in range(1, 13)]
    assert len({*found}) == len(months_of(code)) == 12
    assert all(term_of(name, code) in (term, "") for name, term in zip(months_of(code), found, strict=True))


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("How many orders were returned?", "count"),
        ("Which contract has the longer notice period?", "comparison"),
        ("List all members.", "whole"),
        ("Summarize the discussion about the dye.", "whole"),
        ("What are the main points?", "whole"),
        ("Can you give me an overview of this report?", "whole"),
        ("What is this document about?", "whole"),
        ("Find every mention of the box.", "whole"),
        ("Count the orders of May.", "count"),
        ("Which role did Count Olaf play in All the Marbles?", "comparison"),
        ("Who is on the guest list?", "comparison"),
        ("How is the pump serviced every four years?", "comparison"),
        ("Who is the oldest member?", "comparison"),
        ("Who sealed the box?", ""),
        ("What is the phone number of Orla?", ""),
        ("Wie viele Projekte gibt es?", "count"),
        ("Welcher Vertrag hat die längere Frist?", "comparison"),
        ("Wer hat die Kiste versiegelt?", ""),
        ("Fasse das Dokument zusammen.", "whole"),
        ("Was sind die wichtigsten Punkte?", "whole"),
        ("Liste alle Fristen auf.", "whole"),
        ("Welches Fass liegt im Keller des Hauses?", ""),
        ("Combien de projets y a-t-il ?", "count"),
        ("Quelle est la plus longue rue ?", "comparison"),
        ("Qui a scellé la boîte ?", ""),
        ("Résume le document.", "whole"),
        ("Donne une vue d'ensemble du rapport.", "whole"),
        ("Quels sont tous les membres du comité ?", "whole"),
        ("¿Cuántos pedidos hay?", "count"),
        ("¿Qué contrato tiene el plazo más largo?", "comparison"),
        ("¿Quién selló la caja?", ""),
        ("Resume el documento.", "whole"),
        ("¿Cuáles son los puntos principales?", "whole"),
        ("¿Cuál es el número de teléfono de la oficina?", ""),
        ("一共有多少个项目？", "count"),
        ("哪座桥最长？", "comparison"),
        ("谁封了箱子？", ""),
        ("总结这份文件。", "whole"),
        ("请列出所有成员。", "whole"),
        ("谁有土地所有权？", "comparison"),
        ("Сколько заказов?", ""),  # without a list
    ],
)
def test_a_question_for_many_things_is_known_by_its_words(question: str, asks: str) -> None:
    assert asks_for_many(question, detect(question) or "en") == asks
