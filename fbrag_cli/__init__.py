"""fbrag: answers to questions about long documents, by forward-backward RAG, on your own machine.

What Python programs use is imported from here (docs/python.md). Each name is loaded when it is first asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False  # of typing, which takes longer to load than all else before Ctrl-C is handled
if TYPE_CHECKING:
    from typing import Any

    from fbrag_cli.cancellation import Cancellation as Cancellation
    from fbrag_cli.errors import FbragError as FbragError
    from fbrag_cli.methods.fb_rag.fb_rag import FBRag as FBRag
    from fbrag_cli.progress import Event as Event
    from fbrag_cli.progress import Listener as Listener
    from fbrag_cli.query import ModelNames as ModelNames
    from fbrag_cli.query import Query as Query
    from fbrag_cli.session.session import Session as Session
    from fbrag_cli.session.session import ask as ask
    from fbrag_cli.session.settings import CacheSettings as CacheSettings
    from fbrag_cli.session.settings import DocumentSettings as DocumentSettings
    from fbrag_cli.session.settings import ModelSettings as ModelSettings
    from fbrag_cli.trace import Trace as Trace

__version__ = "0.3.0"

_MODULES = {
    "ask": "session.session",
    "Session": "session.session",
    "ModelNames": "query",
    "Query": "query",
    "ModelSettings": "session.settings",
    "DocumentSettings": "session.settings",
    "CacheSettings": "session.settings",
    "FBRag": "methods.fb_rag.fb_rag",
    "Trace": "trace",
    "Listener": "progress",
    "Event": "progress",
    "Cancellation": "cancellation",
    "FbragError": "errors",
}


def __getattr__(name: str) -> Any:
    """Import one of the public names (PEP 562). Raises AttributeError for another."""
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
