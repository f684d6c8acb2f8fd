"""What a client asks, checked. Its names and values are those of the command line, as far as they name no file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from fbrag_cli.methods.registry import PLAIN, PRESETS, all_settings, choose_method, reading_twice
from fbrag_cli.query import LONGEST_QUESTION, ModelNames
from fbrag_cli.serving.fields import FieldError
from fbrag_cli.serving.http.body import WHOLE, Text
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.suggest import suggestion

if TYPE_CHECKING:
    from fbrag_cli.methods.method import Method
    from fbrag_cli.serving.desk import Desk
    from fbrag_cli.serving.job import Job
    from fbrag_cli.session.session import Session
    from fbrag_cli.settings import Setting

_LONGEST_ID = 100  # characters
_SHOWN = 60  # characters of what was sent, in a message
_PRESETS = (PLAIN, *PRESETS)

_Sought = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_QUESTION), WHOLE]
Name = Annotated[str, StringConstraints(min_length=1, max_length=4096), WHOLE]


class _Models(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    small: str | None = None
    large: str | None = None


class Inquiry(BaseModel):
    """A question of a client: the body of /v1/ask, and of the page's questions."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: Text = Field(description='a question in words: "question": "…"')
    documents: Annotated[list[Name], Field(min_length=1)] | None = Field(
        None, description='ids, names or paths, as GET /v1/documents lists them: "documents": ["…"]'
    )
    preset: Text | None = Field(None, description=f"one of {', '.join(_PRESETS)}")
    settings: dict[str, Any] | None = Field(None, description='settings of the method: "settings": {"NAME": VALUE}')
    models: _Models | None = Field(None, description='"models": {"small": "…", "large": "…"}')
    conversation: Annotated[str, StringConstraints(max_length=_LONGEST_ID), WHOLE] | None = Field(
        None, description="a word that the questions of one conversation share"
    )
    markup: bool = Field(False, description="whether comments, tracked deletions, hidden and struck-out text of files are read")
    more: Annotated[int, Field(ge=0, le=9)] = Field(0, description="how often what is read is doubled: 0 to 9")

    def asked(self, desk: Desk, *, answering: bool = True) -> Job:
        """Return the job that asks it at a desk. Raises FieldError for a value that is not accepted, and as `Desk.ask`."""
        return desk.ask(
            self.question,
            self.documents or (),
            method=reading_twice(self._method(on_gpu=desk.session.on_gpu), self.more),
            models=self._models(desk.session),
            conversation=self.conversation,
            answering=answering,
            markup=self.markup,
        )

    def _method(self, *, on_gpu: bool) -> Method:
        preset = self.preset or PLAIN
        if preset not in _PRESETS:
            raise FieldError("preset", "there is no such preset", f"one of {', '.join(_PRESETS)}")
        return choose_method({preset: True, **_checked(self.settings or {})}, on_gpu=on_gpu)

    def _models(self, session: Session) -> ModelNames:
        chosen = self.models or _Models()
        for role, name in (("small", chosen.small), ("large", chosen.large)):
            if name is not None and name not in (usable := usable_models(session)):
                raise FieldError(f"models.{role}", f"{one_line(name, _SHOWN)} is not here", f"one of {', '.join(usable)}")
        return ModelNames(chosen.small, chosen.large)


class Search(Inquiry):
    """A question whose selection is explained. find: a text whose chunks are marked; None for none."""

    find: _Sought | None = Field(None, description="a text of the documents")


def usable_models(session: Session) -> list[str]:
    """Return the names of the models that clients may choose: those of the session, then those of the catalog that are here."""
    from fbrag_cli.models.catalog import load_catalog
    from fbrag_cli.models.store import locate
    from fbrag_cli.storage.paths import models_dir

    catalog, store = load_catalog(), models_dir()
    here = (name for name in catalog.models if locate(name, store, catalog))
    return [*dict.fromkeys((*session.names(), *here))]


def _checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked values of settings by name. Those that name files are not for clients."""
    known = {name: each for name, each in all_settings().items() if name == "instructions" or not _is_free(each)}
    values: dict[str, Any] = {}
    for key, value in settings.items():
        name = key.replace("-", "_")
        if name == "method":
            if not isinstance(value, str):
                raise FieldError("settings.method", "a name is needed", "see fbrag ask --help")
            values[name] = value
        elif name not in known:
            hint = suggestion(name, ["method", *known], "see fbrag ask --help")
            raise FieldError("settings", f"there is no {one_line(key, _SHOWN)}", hint)
        elif value is not None:
            values[name] = known[name].check(value, f"settings.{name}", "null means the default")
    if str(values.get("instructions", "")).startswith("@"):
        raise FieldError("settings.instructions", "a file is not read for a client", "send the instructions themselves")
    return values


def _is_free(setting: Setting) -> bool:
    """Return whether a setting takes any text, as the name of a file."""
    return setting.kind is str and not (setting.choices or setting.words)
