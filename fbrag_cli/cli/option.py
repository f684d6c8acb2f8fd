"""`Option`: a setting as the command line has it, with its flags, its variables and its place in the configuration file.

What a setting accepts is said by the record that has it. How the settings of the records below the command line look here is
said in `LOOKS`, by name; a setting of a method without an entry is set with --set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple, get_type_hints

from fbrag_cli.settings import Setting, Value, declared, setting_of, settings_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Option(Setting):
    """A setting on the command line.

    group: heading in the help. flags: names of the option, () for the setting's own name. metavar: what the help calls the value.
    varies: the default in words, if it depends on more than this setting. variables: the environment variables that set it, ()
    for none. once: whether it applies to a single run, so that no file sets it. expert: whether it is set with --set and has no
    option of its own. typer: arguments for Typer.
    """

    group: str = ""
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    varies: str | None = None
    variables: tuple[str, ...] = ()
    once: bool = False
    expert: bool = False
    typer: Mapping[str, Any] = field(default_factory=dict)

    @property
    def long_flag(self) -> str:
        """The long option, such as "--forward-tokens"."""
        return next(flag for flag in self.flags if flag.startswith("--")).split("/")[0]

    @property
    def typed(self) -> str:
        """The setting as a user types it: "--samples", "--set recall"."""
        return f"--set {self.long_flag[2:]}" if self.expert else self.long_flag

    @property
    def shown_default(self) -> str:
        """The default as the help shows it, "" for none."""
        if self.varies is not None:
            return self.varies
        if self.on_gpu is not None:
            return f"{self.on_gpu} on a GPU, {self.default} on a CPU"
        return "" if self.default is None or self.default is False or self.default == () else str(self.default)


class _Looks(NamedTuple):
    """How the settings of records look: in `group`, as `all` says, and each as `of` says by its name."""

    group: str
    all: Mapping[str, Any]
    of: Mapping[str, Mapping[str, Any]]


_MODEL = {"metavar": "MODEL"}

#: By the name of the record, or of a class that it derives from.
LOOKS = {
    "ModelSettings": _Looks(
        "Models",
        {},
        {
            "large": {**_MODEL, "flags": ("-m", "--large", "--model"), "variables": ("FBRAG_LARGE",)},
            "small": {**_MODEL, "variables": ("FBRAG_SMALL",)},
            "key_file": {"varies": "FBRAG_KEY", "variables": ("FBRAG_KEY_FILE",)},
            "gpu": {"variables": ("FBRAG_GPU",)},
            "gpu_layers": {"expert": True, "variables": ("FBRAG_GPU_LAYERS",)},
            "device": {"expert": True, "metavar": "NAMES", "varies": "all", "variables": ("FBRAG_DEVICE",)},
            "tensor_split": {
                "expert": True,
                "metavar": "X,Y,…",
                "varies": "by free memory",
                "variables": ("FBRAG_TENSOR_SPLIT",),
            },
            "threads": {"flags": ("-t", "--threads"), "varies": "the physical cores", "variables": ("FBRAG_THREADS",)},
            "ctx": {"expert": True, "varies": "the model's", "variables": ("FBRAG_CTX",)},
        },
    ),
    "DocumentSettings": _Looks(
        "Document",
        {},
        {
            "pages": {"metavar": "PAGES", "varies": "all", "once": True},
            "encoding": {"metavar": "NAME", "varies": "detected"},
            "lang": {"metavar": "NAME", "varies": "detected"},
            "include": {"metavar": "GLOB", "varies": "all known types", "once": True},
            "exclude": {"metavar": "GLOB", "once": True},
        },
    ),
    "CacheSettings": _Looks(
        "Run",
        {},
        {
            "no_cache": {"variables": ("FBRAG_NO_CACHE",)},
            "refresh": {"once": True},
            "cache_limit": {"expert": True, "metavar": "GB", "varies": "5", "variables": ("FBRAG_CACHE_LIMIT",)},
        },
    ),
    "Method": _Looks(
        "Method",
        {"expert": True},
        {
            "select": {"expert": False, "varies": "5, less of short documents; on a GPU 10"},
            "samples": {"expert": False, "flags": ("-k", "--samples"), "metavar": "K"},
            "max_tokens": {"expert": False},
            "seed": {"expert": False},
            "instructions": {"expert": False, "metavar": "TEXT"},
            "allow_unsupported": {"expert": False},
            "weights": {"metavar": "X:Y"},
            "temperature": {"metavar": "T"},
            "rank_by": {"varies": "sum with trained parts, else retriever"},
            "reduce": {"varies": "enough with a trained detector, else windows"},
            "max_words": {"varies": "no limit"},
        },
    ),
    "Training": _Looks(
        "Training",
        {},
        {
            "output": {"group": "Output", "flags": ("-o", "--output")},
            "retriever": {"metavar": "NAME"},
            "limit": {"varies": "all"},
            "list_length": {"varies": "5 to 10; 2 to 20 with --relevance"},
            "rows": {"varies": "", "flags": ("--rows/--no-rows",)},
            "qdm_weight": {"metavar": "X", "varies": "1"},
            "base": {"varies": "all-MiniLM-L6-v2, 84 MB"},
        },
    ),
}


def option(default: Any, help: str, **about: Any) -> Any:
    """Declare a field that is an option. about: fields of `Option`, and arguments for Typer."""
    return field(default=default, metadata={"setting": {"help": help, **about}})


def looking(settings: Mapping[str, Setting], record: str) -> dict[str, Option]:
    """Return settings as options that look as those of a record."""
    looks, options = LOOKS[record], dict[str, Option]()
    for name, setting in settings.items():
        as_setting = {each.name: getattr(setting, each.name) for each in fields(Setting)}
        options[name] = _made(as_setting, {**looks.all, **looks.of.get(name, {})}, looks.group)
    return options


def options_of(group: type[Any]) -> dict[str, Option]:
    """Return the options of a group by name, in the order of its fields, followed by those in its `borrowed`, if it has any.

    The group is a class whose attributes are options, each below the `group` of its class, or a record in `LOOKS`.
    """
    return _options_of(group)  # type: ignore[arg-type]  # mypy takes no class for hashable


@cache
def _options_of(group: type[Any]) -> dict[str, Option]:
    if is_dataclass(group):
        return looking(settings_of(group), next((each.__name__ for each in group.__mro__ if each.__name__ in LOOKS), ""))
    hints, options = get_type_hints(group), dict[str, Option]()
    for kind in reversed(group.__mro__):
        heading = vars(kind).get("group", "")
        for name, declaration in vars(kind).items():
            if isinstance(declaration, Field):
                about = declared(declaration)
                own = {key: about.pop(key) for key in list(about) if key not in _OF_SETTING}
                options[name] = _made(setting_of(name, declaration.default, hints[name], about), own, heading)
    return {**options, **getattr(group, "borrowed", {})}


_OF_SETTING = {each.name for each in fields(Setting)}
_OWN = {each.name for each in fields(Option)} - _OF_SETTING


def _made(setting: Mapping[str, Any], about: Mapping[str, Any], group: str) -> Option:
    """Return an option. setting: its fields as a setting. about: its own fields, and arguments for Typer."""
    own = {"group": group, **{key: value for key, value in about.items() if key in _OWN}}
    if metavar := setting.get("path") or ("N" if setting["kind"] is int or setting["words"] else ""):
        own.setdefault("metavar", metavar)
    own.setdefault("flags", (f"--{setting['name'].replace('_', '-')}",))
    return Option(**setting, **own, typer={key: value for key, value in about.items() if key not in _OWN})


class Effective(NamedTuple):
    """The value in effect for an option, None if there is none. origin: a variable's name, "file" or "default"."""

    value: Any
    origin: str


def effective(option: Option, of_file: Mapping[str, Value], environ: Mapping[str, str]) -> Effective:
    """Return the value in effect without a flag: from a variable, else from the file, else the default.

    of_file: values by name. Raises FbragError `config` if a variable has an invalid value.
    """
    for variable in option.variables:
        if (text := environ.get(variable)) and text not in option.ignored:
            return Effective(option.parse(text, variable, f"fix or unset {variable}", code="config"), variable)
    if option.name in of_file:
        return Effective(of_file[option.name], "file")
    return Effective(option.default, "default")
