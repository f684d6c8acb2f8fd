"""The options that commands share, in groups, and where their values come from.

Those of a method are in `method_options`; those of models, documents and the cache in `session.settings`; those of one command
beside it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, field, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_type_hints

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.cli.console import ColorMode, Console
from fbrag_cli.errors import FbragError
from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings
from fbrag_cli.settings import Effective, Setting, effective, settings_of
from fbrag_cli.storage.config_file import Config, ConfigFile, load, locate
from fbrag_cli.text.near import suggestion
from fbrag_cli.text.printable import seconds_of

#: Where the context of a command keeps the request to stop.
CANCELLATION = "fbrag.cancellation"

#: The values of settings by name, from one place: the configuration file, the environment, or the command line.
Layer = Mapping[str, Any]


class Options:
    """A group of options: its fields are made by `option`, or are groups. Commands make one of layers of values, the last of
    which counts most.

    A plain class, since dozens of dataclasses would take a tenth of the start.
    """

    def __init__(self, *layers: Layer) -> None:
        for name, value in _fields(type(self), layers):
            setattr(self, name, value)


def made(group: type[Any], layers: Iterable[Layer]) -> Any:
    """Return the record of a group of options, or of a dataclass of settings or groups."""
    return group(*layers) if issubclass(group, Options) else group(**dict(_fields(group, [*layers])))


def _fields(group: type[Any], layers: Iterable[Layer]) -> Iterator[tuple[str, Any]]:
    values = {name: value for layer in layers for name, value in layer.items()}
    for name, setting in settings_of(group).items():
        yield name, values.get(name, setting.default)
    for name, inner in inner_groups(group).items():
        yield name, made(inner, layers)


@cache
def _inner_groups(group: type[Any]) -> dict[str, type[Any]]:
    hints = get_type_hints(group).items()
    return {name: kind for name, kind in hints if isinstance(kind, type) and (issubclass(kind, Options) or is_dataclass(kind))}


def inner_groups(group: type[Any]) -> dict[str, type[Any]]:
    """Return the groups that are fields of a group, by name."""
    return _inner_groups(group)  # type: ignore[arg-type]  # mypy takes no class for hashable


def leaves(group: type[Any]) -> Iterator[type[Any]]:
    """Yield the groups within a group that have settings, itself among them."""
    if settings_of(group):
        yield group
    for each in inner_groups(group).values():
        yield from leaves(each)


# -- declarations ----------------------------------------------------------------------------------------------------------------


def option(default: Any, *flags: str, help: str, group: str, **about: Any) -> Any:
    """A field that is an option of the command line, and has its default in its help.

    about: fields of `Setting`, of which min, max and envvar (None: no variable) are short for others; and what Typer alone reads.
    """
    if "envvar" in about:
        about["variables"] = tuple(about.pop("envvar") or ())
    known = {"minimum": about.pop("min", None), "maximum": about.pop("max", None)}
    known |= {name: about.pop(name) for name in [*about] if name in Setting.__dataclass_fields__}
    setting = {"help": help, "varies": "", "group": group, "flags": flags, "option": about, **known}
    return field(default=default, metadata={"setting": setting})


def arguments(help: str, metavar: str, *, required: bool = False) -> Any:
    """A field that is all arguments of the command line."""
    return option((), help=help, group=ARGUMENTS, metavar=metavar, envvar=None, required=required)


def argument(help: str, metavar: str, *, default: Any = MISSING, autocompletion: Callable[..., list[str]]) -> Any:
    """A field that is an argument, required without a default. autocompletion: returns the words that it may be."""
    required = default is MISSING
    about: Any = {"metavar": metavar, "envvar": None, "required": required, "autocompletion": autocompletion}
    return option(None if required else default, help=help, group=ARGUMENTS, **about)


#: The group of what is no option.
ARGUMENTS = "Arguments"


class GlobalOptions(Options):
    """May stand before or after the command; what stands after it counts more, and -q and -v add up."""

    quiet: int = option(
        0, "-q", "--quiet", help="no messages but errors; -qq: no messages at all", group="Global", count=True, envvar=None
    )
    verbose: int = option(
        0, "-v", "--verbose", help="decisions and timings; -vv: llama.cpp's own log", group="Global", count=True, envvar=None
    )
    color: ColorMode = option(
        "auto", "--color", help="colour: auto, always or never (auto; NO_COLOR and FORCE_COLOR count)", group="Global"
    )
    no_progress: bool = option(False, help="no bars and no preview: a plain line for each stage", group="Global")
    offline: bool = option(False, help="make no network connection", group="Global", envvar=["FBRAG_OFFLINE", "HF_HUB_OFFLINE"])
    yes: bool = option(False, "-y", "--yes", help="accept the download of models, and confirmations", group="Global", once=True)
    config: str | None = option(
        None, help="another configuration file; 'none' for none", group="Global", metavar="FILE", envvar=None
    )

    def console(self, cancellation: Cancellation | None = None) -> Console:
        return Console(
            verbosity=max(-2, min(2, self.verbose - self.quiet)),
            color=self.color,
            bars=not self.no_progress,
            yes=self.yes,
            offline=self.offline,
            cancellation=cancellation or Cancellation(),
            config=self.config,
        )


class PasswordOptions(Options):
    password_file: str | None = option(
        None, help="file with the password of an encrypted PDF; '-' is stdin", group="Document", metavar="FILE", once=True
    )


class DocumentOptions(PasswordOptions):
    arguments: list[str] = arguments(
        "one or more documents ('-' is stdin), and the question last", "DOC... QUESTION", required=True
    )


#: The words of --format. A command may take only some of them.
FORMATS = ("text", "json", "jsonl", "md")


class OutputOptions(Options):
    format: Literal["text", "json", "jsonl", "md"] = option(
        "text",
        "-f",
        "--format",
        help="form of the output: text, json, jsonl (events as they happen) or md (text)",
        group="Output",
    )
    json: bool = option(False, help="short for --format json", group="Output", envvar=None)
    output: str = option(
        "-",
        "-o",
        "--output",
        help="file for the output, written whole or not at all (stdout)",
        group="Output",
        metavar="FILE",
        once=True,
    )
    html: str | None = option(
        None,
        help="file for a page as well: the documents with their chunks and scores",
        group="Output",
        metavar="FILE",
        envvar=None,
    )
    open: bool = option(
        False,
        help="open that page in the browser; without --html it is a private file in the temporary folder, which stays",
        group="Output",
        envvar=None,
    )
    exit_zero: bool = option(False, help="exit 0 also where nothing is found", group="Output")

    @property
    def form(self) -> str:
        return "json" if self.json else self.format


class AnswerOptions(Options):
    answer_only: bool = option(False, "-a", "--answer-only", help="print the answer and nothing else", group="Output")
    sources: Literal["cited", "all", "none"] = option(
        "cited",
        help="print the cited sources with their lines and the others in a line each, all with their lines, or none (cited)",
        group="Output",
    )
    context: int = option(
        1,
        "-C",
        "--context",
        help="lines around the sentence of a source, of prose to the end of a sentence; 0: the sentence alone (1)",
        group="Output",
        metavar="N",
        min=0,
    )
    full: bool = option(False, help="print whole chunks", group="Output")


class RunOptions(Options):
    timeout: float | None = option(
        None,
        help="give up after so many seconds, with exit code 5",
        group="Run",
        metavar="SECONDS",
        min=0.001,
        max=1e8,  # three years; timers of macOS take no more
    )


class ParallelOptions(Options):
    parallel: str = option(
        "auto",
        help="questions decoded at once, auto or a number; above 1, answers may differ by rounding (auto; on a CPU 1)",
        group="Run",
        metavar="N",
        words=("auto",),
        min=1,
        max=64,
    )

    @property
    def at_once(self) -> int | None:
        """How many questions run at once; None for as many as pay."""
        return None if self.parallel == "auto" else int(self.parallel)


class QuestionRunOptions(RunOptions):
    dry_run: bool = option(False, help="read, chunk, count and plan; run no model", group="Run", envvar=None)
    more: int = option(
        0,
        help="read the next passages too, for the same question again: twice as much; --more --more: three times",
        group="Method",
        count=True,
        envvar=None,
    )


class ExplainOptions(Options):
    limit: int = option(20, "-n", "--limit", help="number of rows to print (20)", group="Explain", metavar="N", min=1)
    all: bool = option(False, help="print all rows", group="Explain", envvar=None)
    sort: Literal["score", "position"] = option("score", help="order of the rows: score or position (score)", group="Explain")
    samples_text: bool = option(False, help="print the forward samples, each with the chunk that it raised most", group="Explain")
    find: str | None = option(
        None, help="print rank, scores and fate of the chunk that holds TEXT", group="Explain", metavar="TEXT", envvar=None
    )
    chunk: int | None = option(
        None, help="print one chunk in full, with the terms that scored", group="Explain", metavar="N", min=1, envvar=None
    )
    map: bool | None = option(
        None, "--map/--no-map", help="draw a map of the document, a cell for each chunk (on a terminal)", group="Explain"
    )
    prompt: bool = option(False, help="print the exact prompts of both models", group="Explain", envvar=None)
    text: bool = option(
        False, help="print the decoded text of DOC with line and page numbers; takes no QUESTION", group="Explain", envvar=None
    )


class BatchOptions(ParallelOptions):
    documents: list[str] = arguments("documents; of a folder, each file is one", "DOC...")
    questions: str | None = option(
        None,
        "-Q",
        "--questions",
        help="file of questions: text (one a line, # begins a comment), CSV (question, id) or JSON lines; '-' is stdin",
        group="Jobs",
        metavar="FILE",
        envvar=None,
    )
    jobs: str | None = option(
        None,
        help="file of jobs: CSV or JSON lines with document and question; id and answers may stand beside them",
        group="Jobs",
        metavar="FILE",
        envvar=None,
    )
    together: bool = option(False, help="pool all DOCs: one row a question", group="Jobs", envvar=None)
    n_rows: int | None = option(
        None, "--limit", help="do the first N rows only (all)", group="Jobs", metavar="N", min=1, envvar=None
    )
    shard: str | None = option(
        None, help="do every N-th row from the I-th on, for several machines", group="Jobs", metavar="I/N", envvar=None
    )
    output: str = option(
        "-",
        "-o",
        "--output",
        help="file for the rows: JSON lines as they come, or CSV by its name, made from the JSON lines beside it (stdout)",
        group="Output",
        metavar="FILE",
        once=True,
    )
    html: str | None = option(
        None,
        help="file for a page of all rows as well: documents down, questions across, each answer with its sentence",
        group="Output",
        metavar="FILE",
        envvar=None,
    )
    wide: str | None = option(
        None,
        help="file for all answers as CSV as well: a row for each document, a column for each question",
        group="Output",
        metavar="FILE",
        envvar=None,
    )
    resume: bool = option(
        True, "--resume/--restart", help="go on with what -o FILE holds, or begin anew (resume)", group="Run", envvar=None
    )
    retry_errors: bool = option(False, help="do rows with an error again", group="Run", envvar=None)
    max_errors: int | None = option(
        None, help="stop after so many rows with an error (no limit)", group="Run", metavar="N", min=1
    )
    fail_fast: bool = option(False, help="stop at the first row with an error", group="Run")
    engine: Literal["local", "ray"] = option(
        "local", help="who answers: this process (local), or the workers of a Ray cluster (ray)", group="Cluster"
    )
    address: str | None = option(
        None,
        help="a running Ray cluster: auto, or host:port; without it one is started on this machine",
        group="Cluster",
        metavar="ADDRESS",
    )

    @property
    def own_files(self) -> list[str]:
        """The files that a run writes, where they hold what an earlier run wrote: in a folder, they are no documents."""
        from fbrag_cli.batch.rows import is_own, rows_of

        return [self.output, str(rows_of(self.output)), *(path for path in (self.html, self.wide) if path and is_own(Path(path)))]

    @property
    def most_errors(self) -> float:
        return 1 if self.fail_fast else self.max_errors or float("inf")


# -- of the commands that listen: `fbrag serve` and `fbrag ui` -----------------------------------------------------------------

PORT = 8377

_SITE = re.compile(r"(https?://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]+)?)|([a-z-]+-extension://[\w-]+)")
_LEAST_TOKEN = 16  # characters


def _seconds(time: str) -> float | None:
    """Return the seconds of a time such as "15m", None for never. Raises ValueError."""
    if time == "never":
        return None
    if seconds := seconds_of(time, "smhd"):
        return float(seconds)
    raise ValueError(time)


class ListenOptions(ParallelOptions):
    documents: list[str] = arguments("documents and folders to serve", "DOC...")
    host: str | None = option(
        None, help="address to listen on over TCP (127.0.0.1)", group="Listen", metavar="ADDRESS", envvar=None
    )
    port: int | None = option(
        None,
        help=f"port to listen on over TCP; 0 for any that is free ({PORT}, else any)",
        group="Listen",
        metavar="N",
        min=0,
        max=65535,
        envvar=None,
    )
    token_file: str | None = option(
        None,
        help="file with the token that clients over TCP send; other addresses than loopback need one",
        group="Listen",
        metavar="FILE",
    )
    origin: list[str] = option(
        (),
        help="a site whose pages may ask over TCP, as https://chat.example; may be given several times (none)",
        group="Listen",
        metavar="URL",
    )
    allow: list[str] = option(
        (),
        help="a folder whose files clients may name; may be given several times (what is served)",
        group="Document",
        metavar="DIR",
    )
    timeout: float | None = option(
        None,
        help="end a question that takes more than so many seconds, its waiting included (no limit)",
        group="Run",
        metavar="SECONDS",
        min=0.001,
        max=1e8,
    )
    idle: str = option(
        "15m",
        help="free models and then end after so long without a request: 90s, 15m, 1h, or never (15m)",
        group="Run",
        metavar="TIME",
        form=_seconds,
        accepts="a number and s, m, h or d, as 15m, or never",
    )
    parallel: str = option(
        "auto",
        help="questions answered at once, auto or a number; above 1, answers may differ by rounding (auto: 1)",
        group="Run",
        metavar="N",
        words=("auto",),
        min=1,
        max=64,
    )
    print_ready: bool = option(False, help="print a line of JSON on stdout once it listens", group="Output", envvar=None)

    @property
    def idle_seconds(self) -> float | None:
        """Seconds of --idle; None for never."""
        return _seconds(self.idle)

    @property
    def origins(self) -> frozenset[str]:
        """The sites of --origin, as browsers name them. Raises FbragError `usage`."""
        for each in self.origin:
            if not _SITE.fullmatch(each.lower()):
                raise FbragError("usage", f"--origin {each} is no site", "name it without a path, as https://chat.example")
        return frozenset(each.lower() for each in self.origin)

    @property
    def token(self) -> str | None:
        """The token of --token-file, None without one. Raises FbragError `usage` for a file that holds none, or that other users
        can read."""
        if self.token_file is None:
            return None
        where, make = f"--token-file {self.token_file}", "(umask 077; openssl rand -hex 32 > FILE)"
        try:
            with open(self.token_file, "rb") as file:
                mode, content = os.fstat(file.fileno()).st_mode, file.read(10_000)
        except (OSError, ValueError) as error:
            raise FbragError("usage", f"{where} cannot be read: {getattr(error, 'strerror', error)}", make) from None
        if os.name == "posix" and stat.S_ISREG(mode) and mode & 0o077:
            raise FbragError("usage", f"{where}: other users can read it", f"chmod 600 {self.token_file}")
        if not re.fullmatch(rb"[!-~]{%d,4096}" % _LEAST_TOKEN, content.strip()):
            raise FbragError("usage", f"{where} holds no token: {_LEAST_TOKEN} or more letters, digits and signs", make)
        return content.strip().decode()


# -- the configuration file ------------------------------------------------------------------------------------------------------

_FIRST = 5  # unknown keys that are named; each is compared with all that are known
_COMMANDS = (GlobalOptions, OutputOptions, AnswerOptions, ExplainOptions, RunOptions, ListenOptions, BatchOptions)
_IN_FILE = (*_COMMANDS, DocumentSettings, ModelSettings, CacheSettings)


def known_keys() -> dict[str, Setting]:
    """Return the settings that the configuration file may have, by name."""
    from fbrag_cli.cli.method_options import MethodOptions  # loads all methods

    return keys_of(*_IN_FILE, MethodOptions)


def keys_of(*groups: type[Any]) -> dict[str, Setting]:
    """Return the settings of groups that the configuration file may have, by name."""
    return {name: each for group in groups for name, each in settings_of(group).items() if each.in_file}


def find_key(name: str) -> Setting:
    """Return the key with this name, which may be spelled with hyphens. Raises FbragError `config`."""
    keys, name = keys_of(*_IN_FILE), name.replace("-", "_")
    if name not in keys and name not in (keys := known_keys()):
        raise FbragError("config", f"there is no key {name}", suggestion(name, keys, "fbrag config show"))
    return keys[name]


def warn_of_unknown(file: ConfigFile, config: Config, console: Console) -> None:
    """Warn of the first keys that no command knows, a line each."""
    if config.unknown:
        keys = known_keys()
        for name in [each for each in config.unknown if each.replace("-", "_") not in keys][:_FIRST]:
            console.warn(f"{file.path}: there is no key {name}; {suggestion(name, keys, 'fbrag config show lists them')}")


def value_of(setting: Setting, config: Config, environ: Mapping[str, str]) -> Effective:
    """Return the value of a setting that counts without flags. The default pair of models is the catalogue's."""
    found = effective(setting, config.values, environ)
    if found.value is None and setting.name in ("large", "small"):
        from fbrag_cli.models.catalogue import load_catalogue

        return Effective(getattr(load_catalogue(), f"default_{setting.name}"), found.origin)
    return found


def configured(console: Console, *names: str) -> list[Any]:
    """Return the values that count without flags, of settings of the models and of the cache."""
    keys = keys_of(ModelSettings, CacheSettings)
    config = load(locate(console.config, os.environ), keys)
    return [value_of(keys[name], config, os.environ).value for name in names]


# -- outputs ---------------------------------------------------------------------------------------------------------------------


def check_outputs(outputs: Mapping[str, str | None], inputs: Iterable[str]) -> None:
    """Raise FbragError `usage` where an output is one of the files `inputs`, whatever its name is: it would be destroyed.

    outputs: paths by option. inputs: looked at only where an output exists.
    """
    existing = {identity: option for option, path in outputs.items() if (identity := _identity(path))}
    for path in inputs if existing else ():
        if option := existing.get(_identity(path) or (0, 0)):
            what = f"{option} {outputs[option]}: it is read, and would be overwritten"
            raise FbragError("usage", what, f"choose another {option} FILE")


def files_of(documents: Iterable[str], reading: DocumentSettings) -> Iterator[str]:
    """Yield the files that documents stand for: of a folder those that are read."""
    from fbrag_cli.indexing.files import find_files

    for path in documents:
        if os.path.isdir(path):
            with suppress(FbragError):  # a folder without any is reported when it is read
                yield from (file.path for file in find_files([path], reading.include, reading.exclude).files)
        else:
            yield path


def _identity(path: str | None) -> tuple[int, int] | None:
    """Return the device and the inode of a regular file; None for a path that is none."""
    if not path or not os.path.isfile(path):
        return None
    status = os.stat(path)
    return status.st_dev, status.st_ino
