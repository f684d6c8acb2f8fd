"""Short names of documents, where their paths stand beside them or do not matter: without the folder that all lie in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os.path import commonprefix

from fbrag_cli.corpus import Corpus
from fbrag_cli.trace import Trace


def short_names(names: Sequence[str]) -> list[str]:
    """Return the names without the folder that all lie in. Of documents in no common folder, what follows the last slash, if that
    differs for all."""
    folder = commonprefix(names).rpartition("/")[0]  # noqa: RUF071 cut at a "/"
    if folder:
        return [name[len(folder) + 1 :] for name in names]
    last = [name.rpartition("/")[2] for name in names]
    return last if all(last) and len({*last}) == len(last) else [*names]


def with_short_names(corpus: Corpus) -> Corpus:
    """Return the same corpus, its documents under their short names."""
    names = short_names([document.name for document in corpus.documents])
    documents = (replace(document, name=name) for document, name in zip(corpus.documents, names, strict=True))
    return replace(corpus, documents=tuple(documents))


def named_shortly(trace: Trace) -> Trace:
    """Return the same trace, its documents and sources under their short names."""
    corpus = with_short_names(trace.corpus)
    context = (replace(excerpt, chunk=corpus.chunks[excerpt.chunk.position]) for excerpt in trace.context)
    return replace(trace.over(corpus), context=tuple(context))
