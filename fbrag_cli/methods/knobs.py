"""Settings as dataclass fields that carry their own help, bounds and option: declared once, read by every front."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from fbrag_cli.storage.config_key import Accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """The help, the bounds and the option of a setting.

    help: one phrase. varies: the default in words, where it depends on something else than this field. on_gpu: the default where
    the models run on a GPU, None for the same. chunks: whether it is a number of chunks, which may be given in words ("6k").
    group: of options in the help. names: of the option, () for the field's own name. compared: whether an evaluation takes a
    list of values. implies: another setting and its value, where the user gives a value here and none there.
    """

    help: str
    minimum: float | None = None
    maximum: float | None = None
    varies: str | None = None
    on_gpu: Any = None
    chunks: bool = False
    group: str = "Method"
    names: tuple[str, ...] = ()
    metavar: str | None = None
    compared: bool = True
    implies: tuple[str, Any] | None = None

    def default_text(self, default: Any) -> str:
        """Return the default as the help shows it, "" for none."""
        if self.varies is not None:
            return self.varies
        if self.on_gpu is not None:
            return f"{self.on_gpu} on a GPU, {default} on a CPU"
        return "" if default is None or default is False or default == () else str(default)


@dataclass(frozen=True, slots=True)
class Setting:
    """A field of a settings record. kind: type of its values. choices: the words that it takes, () for no list."""

    name: str
    kind: type
    choices: tuple[str, ...]
    default: Any
    knob: Knob

    @property
    def accepted(self) -> Accepted:
        """The values that it accepts."""
        return Accepted(kind=self.kind, choices=self.choices, minimum=self.knob.minimum, maximum=self.knob.maximum)

    @property
    def option(self) -> str:
        """The long option, as "--eta-forward"."""
        return option_name(self.name)


def option_name(field_name: str) -> str:
    """Return the long option of a field: "--eta-forward" for "eta_forward"."""
    return f"--{field_name.replace('_', '-')}"


def knob(default: Any, help: str, **about: Any) -> Any:
    """A field that is a setting. about: the fields of `Knob`."""
    return field(default=default, metadata={"knob": Knob(help=help, **about)})


def settings_of(record: type[Any]) -> dict[str, Setting]:
    """The settings of a record by name, in the order of its fields. Fields without a knob are none."""
    hints = get_type_hints(record)
    found = {}
    for each in fields(record):
        if (about := each.metadata.get("knob")) is not None:
            kind, choices = kind_of(hints[each.name])
            found[each.name] = Setting(each.name, kind, choices, each.default, about)
    return found


def kind_of(hint: Any) -> tuple[type, tuple[str, ...]]:
    """The type of the values of a hint such as `int | None` or `Literal["a", "b"]`, and the words that it allows."""
    if get_origin(hint) is Literal:
        return str, get_args(hint)
    for inner in get_args(hint):
        if inner is not type(None):
            return kind_of(inner)
    return hint, ()
