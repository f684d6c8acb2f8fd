"""The methods, in the order of tables: what reads no document, then the baselines, then FIT-RAG, R2AG and FB-RAG.

A method is registered by one line here.
"""

from __future__ import annotations

from fbrag_cli.errors import FbragError
from fbrag_cli.methods.alone.closed_book import ClosedBook
from fbrag_cli.methods.alone.genread import GenRead
from fbrag_cli.methods.alone.refeed import Refeed
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.fb_rag.long_context import LongContext
from fbrag_cli.methods.fb_rag.order_preserving import OrderPreserving
from fbrag_cli.methods.fb_rag.self_route import SelfRoute
from fbrag_cli.methods.fb_rag.vanilla import Vanilla
from fbrag_cli.methods.fit_rag.method import FitRag
from fbrag_cli.methods.knobs import Setting, settings_of
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.r2ag.method import R2Ag
from fbrag_cli.text.near import suggestion

METHODS: list[type[Method]] = [
    ClosedBook,
    GenRead,
    LongContext,
    Vanilla,
    OrderPreserving,
    SelfRoute,
    Refeed,
    FitRag,
    R2Ag,
    FBRag,
]

DEFAULT = FBRag.name


def names() -> list[str]:
    """Return the names of all methods."""
    return [method.name for method in METHODS]


def find_method(name: str) -> type[Method]:
    """Return the method of this name. Raises FbragError `usage`."""
    for method in METHODS:
        if method.name == name:
            return method
    hint = suggestion(name, names(), f"one of {', '.join(names())}")
    raise FbragError("usage", f"--method {name}: there is no such method", hint)


def all_settings() -> dict[str, Setting]:
    """Return the settings of all methods by name. One that several methods have is declared by the last of them."""
    found: dict[str, Setting] = {}
    for method in reversed(METHODS):
        for name, setting in settings_of(method).items():
            found.setdefault(name, setting)
    return found
