"""What heads or replaces an answer that is not sure, in the language of the question."""

from __future__ import annotations

from fbrag_cli.text.languages import detect, stop_words
from fbrag_cli.text.words import word_spans

_NOT_FOUND = {
    "ar": "لا يذكر المستند ذلك.",
    "cs": "Dokument to neuvádí.",
    "da": "Det fremgår ikke af dokumentet.",
    "de": "Das Dokument sagt dazu nichts.",
    "el": "Το έγγραφο δεν το αναφέρει.",
    "es": "El documento no lo dice.",
    "fi": "Asiakirja ei kerro sitä.",
    "fr": "Le document ne le dit pas.",
    "he": "המסמך אינו אומר זאת.",
    "hi": "दस्तावेज़ में यह नहीं बताया गया है।",
    "hu": "A dokumentum nem említi.",
    "id": "Dokumen tidak menyebutkannya.",
    "it": "Il documento non lo dice.",
    "ja": "文書には書かれていません。",
    "ko": "문서에 나와 있지 않습니다.",
    "nl": "Dat staat niet in het document.",
    "no": "Det fremgår ikke av dokumentet.",
    "pl": "Dokument tego nie podaje.",
    "pt": "O documento não diz isso.",
    "ro": "Documentul nu spune acest lucru.",
    "ru": "В документе об этом не сказано.",
    "sv": "Det framgår inte av dokumentet.",
    "tr": "Belgede bu belirtilmiyor.",
    "uk": "У документі про це не сказано.",
    "vi": "Tài liệu không nói điều đó.",
    "zh": "文档中没有说明。",
}
_NOT_SURE = {
    "ar": "غير مؤكد:",
    "cs": "Nejisté:",
    "da": "Usikkert:",
    "de": "Nicht sicher:",
    "el": "Όχι βέβαιο:",
    "es": "No es seguro:",
    "fi": "Epävarmaa:",
    "fr": "Pas certain :",
    "he": "לא ודאי:",
    "hi": "निश्चित नहीं:",
    "hu": "Nem biztos:",
    "id": "Tidak pasti:",
    "it": "Non è certo:",
    "ja": "不確か：",
    "ko": "확실하지 않음:",
    "nl": "Niet zeker:",
    "no": "Usikkert:",
    "pl": "Niepewne:",
    "pt": "Não é certo:",
    "ro": "Nesigur:",
    "ru": "Не точно:",
    "sv": "Osäkert:",
    "tr": "Kesin değil:",
    "uk": "Не певно:",
    "vi": "Không chắc:",
    "zh": "不确定：",
}
_BY_SCRIPT = ("el", "ja", "ko", "zh")  # whose script shows the language
_CERTAIN = 2  # function words of a language in a question, for the question to be in it


def not_found(question: str) -> str:
    """Return the sentence that the document does not say, in the question's language; in English where that is uncertain."""
    return _NOT_FOUND.get(_language(question), "The document does not say.")


def not_sure(question: str) -> str:
    """Return what heads an unsure answer, in the question's language; in English where that is uncertain."""
    return _NOT_SURE.get(_language(question), "Not sure:")


def _language(question: str) -> str:
    """Return the language of the question; "en" where another one is uncertain."""
    language = detect(question)
    if language not in _BY_SCRIPT:
        words = [question[start:end].strip(".,;:!?¿¡«»“”\"'()؟।").casefold() for start, end in word_spans(question)]
        found, english = (sum(word in stop_words(each) for word in words) for each in (language, "en"))
        language = language if found >= _CERTAIN and found > english else "en"
    return language
