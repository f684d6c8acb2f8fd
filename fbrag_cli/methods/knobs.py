"""Settings as dataclass fields that carry their own help, bounds and option: declared once, read by every front."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.config_key import Accepted, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """The help, the bounds and the option of a setting.

    help: one phrase. varies: the default in words, where it depends on something else than this field. on_gpu: the default where
    the models run on a GPU, None for the same. choices: the words that it takes, () for those of its type. words: what stands for
    a number beside numbers, as "auto". group: of options in the help. names: of the option, () for the field's own name.
    variables: of the environment, None for FBRAG_ and its name. once: whether it says what a single run is to do, so that no file
    sets it. compared: whether an evaluation takes a list of values. implies: another setting and its value, where the user gives
    a value here and none there.
    """

    help: str
    minimum: float | None = None
    maximum: float | None = None
    varies: str | None = None
    on_gpu: Any = None
    choices: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    group: str = "Method"
    names: tuple[str, ...] = ()
    metavar: str | None = None
    variables: tuple[str, ...] | None = None
    once: bool = False
    compared: bool = True
    implies: tuple[str, Any] | None = None

    def default_text(self, default: Any) -> str:
        """Return the default as the help shows it, "" for none."""
        if self.varies is not None:
            return self.varies
        if self.on_gpu is not None:
            return f"{self.on_gpu} on a GPU, {default} on a CPU"
        return "" if default is None or default is False or default == () else str(default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Accepted):
    """A field of a settings record, and the values that it accepts."""

    name: str
    default: Any
    knob: Knob

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the option, as "-m", "--large", "--map/--no-map"."""
        return self.knob.names or (f"--{self.name.replace('_', '-')}",)

    @property
    def option(self) -> str:
        """The long option, as "--forward-tokens"."""
        return next(name for name in self.names if name.startswith("--")).split("/")[0]

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that set it. The first one that is set counts."""
        if self.knob.variables is not None:
            return self.knob.variables
        return (f"FBRAG_{self.option[2:].replace('-', '_').upper()}",)

    @property
    def help(self) -> str:
        """The help of the option, with its default."""
        default = self.knob.default_text(self.default)
        return f"{self.knob.help} ({default})" if default else self.knob.help


@dataclass(frozen=True, slots=True)
class Effective:
    """The value that counts for a setting, None where nothing is set. origin: a variable's name, "file" or "default"."""

    value: Value | None
    origin: str


def effective(setting: Setting, of_file: Mapping[str, Value], environ: Mapping[str, str]) -> Effective:
    """Return the value that counts without a flag: that of a variable, else of the file, else the default.

    of_file: values by name. Raises FbragError `config` for a variable that the setting does not accept.
    """
    for variable in setting.variables:
        if text := environ.get(variable):
            if (value := setting.parsed(text)) is None:
                what = f"{variable} is {text!r}, expected {setting.expects}"
                raise FbragError("config", what, f"correct or unset {variable}")
            return Effective(value, variable)
    if setting.name in of_file:
        return Effective(of_file[setting.name], "file")
    return Effective(setting.default, "default")


def knob(default: Any, help: str, **about: Any) -> Any:
    """A field that is a setting. about: the fields of `Knob`."""
    return field(default=default, metadata={"knob": Knob(help=help, **about)})


def settings_of(record: type[Any]) -> dict[str, Setting]:
    """Return the settings of a record by name, in the order of its fields. Fields without a knob are none."""
    return _settings(record)  # type: ignore[arg-type]  # mypy takes no class for hashable


@cache
def _settings(record: type[Any]) -> dict[str, Setting]:
    hints = get_type_hints(record)
    return {each.name: setting_of(each, hints[each.name]) for each in fields(record) if "knob" in each.metadata}


def setting_of(declared: Field[Any], hint: Any) -> Setting:
    """Return the setting that a field with a knob declares. hint: the type of its values."""
    about: Knob = declared.metadata["knob"]
    kind, choices = kind_of(hint)
    return Setting(
        name=declared.name,
        kind=kind,
        choices=about.choices or choices,
        minimum=about.minimum,
        maximum=about.maximum,
        words=about.words,
        default=declared.default,
        knob=about,
    )


def kind_of(hint: Any) -> tuple[type, tuple[str, ...]]:
    """Return the type of the values of a hint such as `int | None` or `Literal["a", "b"]`, and the words that it allows."""
    if get_origin(hint) is Literal:
        return str, get_args(hint)
    for inner in get_args(hint):
        if inner is not type(None):
            return kind_of(inner)
    return hint, ()
