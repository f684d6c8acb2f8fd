"""`Inquiry`: what a client asks, checked. Its names and values are those of the command line, as far as they name no file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from starlette.requests import Request

from fbrag_cli.errors import FbragError
from fbrag_cli.methods.choosing import PLAIN, PRESETS, choose_method, preset_settings
from fbrag_cli.methods.registry import DEFAULT as FB_RAG
from fbrag_cli.methods.registry import all_settings
from fbrag_cli.query import DEFAULT_RETRIEVER, ModelNames
from fbrag_cli.serving.http.body import body_of
from fbrag_cli.text.near import suggestion
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from fbrag_cli.methods.knobs import Setting
    from fbrag_cli.methods.method import Method
    from fbrag_cli.serving.desk import Desk
    from fbrag_cli.serving.job import Job
    from fbrag_cli.session.session import Session

MOST_JSON = 1_000_000  # bytes of a body
_LONGEST_QUESTION = 10_000  # characters
_LONGEST_NAME = 4096  # characters
_LONGEST_ID = 100  # characters
_SHOWN = 60  # characters of what was sent, in a message
_KEYS = ("question", "documents", "preset", "settings", "models", "conversation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """A question of a client. documents: names as of `Library.find`; none for all. conversation: its id; None for none. find: a
    text whose chunks an explanation marks; None for none."""

    question: str
    documents: tuple[str, ...] = ()
    method: Method
    models: ModelNames
    conversation: str | None = None
    find: str | None = None

    @classmethod
    def of(cls, body: Mapping[str, Any], session: Session, *, finds: bool = False) -> Inquiry:
        """Return what the JSON object of a request asks. finds: whether it may have a text to find.

        Raises FbragError `usage` for a key or a value that is not accepted.
        """
        known = (*_KEYS, "find") if finds else _KEYS
        if unknown := [key for key in body if key not in known]:
            _refuse(
                f"{one_line(unknown[0], _SHOWN)}: there is no such key",
                suggestion(unknown[0], known, f"one of {', '.join(known)}"),
            )
        return cls(
            question=_text(body, "question", _LONGEST_QUESTION).strip() or _refuse("question: it is empty", "ask something"),
            documents=_documents(body),
            method=_method(body, on_gpu=session.on_gpu),
            models=_models(body, session),
            conversation=_text(body, "conversation", _LONGEST_ID) if body.get("conversation") is not None else None,
            find=_text(body, "find", _LONGEST_QUESTION) if body.get("find") is not None else None,
        )

    def asked(self, desk: Desk, *, answering: bool = True) -> Job:
        """Return the job that asks it at a desk. Raises as `Desk.ask`."""
        return desk.ask(
            self.question,
            self.documents,
            method=self.method,
            models=self.models,
            conversation=self.conversation,
            answering=answering,
        )


async def read_object(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request's body. Raises FbragError `usage` for another body, `too_large` for more than 1 MB."""
    body = await body_of(request, MOST_JSON, "upload a text by POST /v1/documents")
    try:
        found = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        _refuse(f"the body is no JSON: {one_line(str(error), _SHOWN)}", 'send an object: {"question": "…"}')
    return found if isinstance(found, dict) else _refuse("the body is no JSON object", 'send an object: {"question": "…"}')


def usable_models(session: Session) -> list[str]:
    """Return the names of the models that clients may choose: those of the session, then those of the catalogue that are here."""
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.store import locate
    from fbrag_cli.storage.places import models_dir

    catalogue, store = load_catalogue(), models_dir()
    here = (name for name in catalogue.models if locate(name, store, catalogue))
    return [*dict.fromkeys((*session.names(), *here))]


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _refuse(what: str, hint: str) -> NoReturn:
    raise FbragError("usage", what, hint)


def _text(body: Mapping[str, Any], key: str, most: int) -> str:
    """Return a text without halves of characters, which JSON can hold."""
    value = body.get(key)
    if not isinstance(value, str):
        _refuse(f"{key}: a text is needed", f'"{key}": "…"')
    if len(value) > most:
        _refuse(f"{key}: it has {len(value):,} characters", f"{most:,} at most")
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _object(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = body.get(key)
    if value is not None and not isinstance(value, dict):
        _refuse(f"{key}: an object is needed", f'"{key}": {{"NAME": VALUE}}')
    return value or {}


def _documents(body: Mapping[str, Any]) -> tuple[str, ...]:
    value = body.get("documents")
    if value is None:
        return ()
    if (
        not isinstance(value, list)
        or not value
        or not all(isinstance(each, str) and 0 < len(each) <= _LONGEST_NAME for each in value)
    ):
        _refuse("documents: a list of ids or paths is needed", 'GET /v1/documents has the ids: "documents": ["…"]')
    return tuple(value)


def _method(body: Mapping[str, Any], *, on_gpu: bool) -> Method:
    preset = body.get("preset", PLAIN)
    if preset is None:
        preset = PLAIN
    if preset != PLAIN and (not isinstance(preset, str) or preset not in PRESETS):
        _refuse("preset: there is no such preset", f"one of {', '.join((PLAIN, *PRESETS))}")
    given = dict(_settings(body))
    name = given.pop("method", None)
    values = preset_settings(preset, DEFAULT_RETRIEVER)
    of_preset = values.pop("method", None)
    if name and of_preset and name != of_preset:
        _refuse(f"preset: {preset} is the method {of_preset}, and settings name another", "leave one of them out")
    return choose_method(name or of_preset or FB_RAG, values | given, on_gpu=on_gpu)


def _settings(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked values of settings by name. Those that name files are not for clients."""
    known = {name: each for name, each in all_settings().items() if name == "instructions" or not _is_free(each)}
    found: dict[str, Any] = {}
    for key, value in _object(body, "settings").items():
        name = key.replace("-", "_")
        if name == "method":
            found[name] = _text({"settings.method": value}, "settings.method", _LONGEST_ID)
        elif name not in known:
            _refuse(
                f"settings: there is no {one_line(key, _SHOWN)}", suggestion(name, ["method", *known], "see fbrag ask --help")
            )
        elif value is not None:
            found[name] = known[name].checked(value)
            if found[name] is None:
                _refuse(f"settings.{name}: {known[name].expects} is needed", "null stands for the default")
    if str(found.get("instructions", "")).startswith("@"):
        _refuse("settings.instructions: a file is not read for a client", "send the instructions themselves")
    return found


def _is_free(setting: Setting) -> bool:
    """Return whether a setting takes any text, as the name of a file."""
    return setting.kind is str and not (setting.choices or setting.words)


def _models(body: Mapping[str, Any], session: Session) -> ModelNames:
    models = _object(body, "models")
    for role, name in models.items():
        if role not in ("small", "large"):
            _refuse(f"models: there is no {one_line(role, _SHOWN)}", '"models": {"small": "…", "large": "…"}')
        if name is not None and (not isinstance(name, str) or name not in usable_models(session)):
            shown = one_line(name, _SHOWN) if isinstance(name, str) else "that"
            _refuse(f"models.{role}: {shown} is not here", f"one of {', '.join(usable_models(session))}")
    return ModelNames(models.get("small"), models.get("large"))
