"""Words by which questions ask: "name", "kind", "summarize". They name nothing that a document could lack."""

from __future__ import annotations

from functools import cache

_WORDS = {
    "en": """
    according answer article author book called chapter describe described discuss discussed document documents enumerate
    example examples explain explanation find give given happen happened happens identify kind kinds list long many mention
    mentioned mentions name named names number outline page paper passage please provide question reason reasons said say
    says sort sorts state stated story summarise summarize summary tell tells text title type types word words""",
    "de": """
    antwort art arten autor beispiel beispiele beschreibe beschreiben bitte buch dokument erkläre erklären erwähnt frage
    genannt gesagt gib grund gründe heißen heißt hieß hießen kapitel lange liste name namen nenne nennen nennt passiert sage
    sagt seite steht text titel viel viele wort worte wörter zusammenfassung""",
    "es": """
    artículo autor cantidad capítulo cita cuenta da describe dice documento ejemplo ejemplos explica libro lista llama
    llamaba menciona nombra nombre nombres número página palabra palabras pasa pasó pregunta razón resume resumen tipo
    tipos texto título""",
    "fr": """
    article auteur chapitre cite combien décris dis dit document donne exemple exemples explique fois genre histoire liste
    livre mentionne mot mots nom nombre nomme nommé noms page passe passé question raison raisons résume résumé sorte
    texte titre type types""",
    "it": """
    articolo autore capitolo chiama chiamava descrivi dice dimmi documento elenca esempio esempi libro menziona motivo nome
    nomi numero pagina parola parole ragione riassumi riassunto spiega storia succede successo testo tipo tipi titolo""",
    "nl": """
    antwoord auteur beschrijf boek document genoemd heet heette hoofdstuk lijst naam namen noem noemt pagina reden redenen
    samenvatting soort soorten staat tekst titel uitleg verhaal vermeld voorbeeld woord woorden zegt""",
    "pt": """
    artigo autor capítulo chama chamava cite descreva diz documento exemplo exemplos explique liste livro menciona motivo
    nome nomes número página palavra palavras razão resuma resumo texto tipo tipos título""",
}


@cache
def asking_words(language: str) -> frozenset[str]:
    """Return the case-folded words by which questions in a language ask; empty for a language without a list."""
    return frozenset(_WORDS.get(language, "").casefold().split())
