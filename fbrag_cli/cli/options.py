"""The options that commands share, in groups, and where their values come from.

Those of a method are in `method_options`; those of models, documents and the cache in `session.settings`; those of one command
next to it. Which of them a file or a variable sets is in `keys`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.cli.completion import folder_names
from fbrag_cli.cli.console import ColorMode, Console
from fbrag_cli.cli.option import option, options_of
from fbrag_cli.errors import FbragError
from fbrag_cli.settings import DURATION, seconds_of
from fbrag_cli.storage.files import on_disk

if TYPE_CHECKING:
    from fbrag_cli.session.settings import DocumentSettings

#: Where the context of a command keeps the request to stop.
CANCELLATION = "fbrag.cancellation"

_PATHS = ("FILE", "FOLDER", "DIR", "PATH")  # what the help calls the value of a setting that names a file or a folder

#: What the help calls documents, which may be named as @NAME.
DOCUMENTS = ("DOC...", "DOC... QUESTION", "DIR")

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
    for name, setting in options_of(group).items():
        value = values.get(name, setting.default)
        if setting.metavar in _PATHS or setting.group == ARGUMENTS:
            value = on_disk(value) if isinstance(value, str) else [*map(on_disk, value)] if value else value
        yield name, value
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
    if options_of(group):
        yield group
    for each in inner_groups(group).values():
        yield from leaves(each)


# -- declarations ----------------------------------------------------------------------------------------------------------------


def arguments(help: str, metavar: str, *, required: bool = False) -> Any:
    """A field that is all arguments of the command line."""
    return option((), help, group=ARGUMENTS, metavar=metavar, once=True, required=required, autocompletion=folder_names)


def output_file(help: str = "write to FILE instead of stdout (all or nothing)", **about: Any) -> Any:
    """The field of -o, by default stdout."""
    return option("-", help, flags=("-o", "--output"), metavar="FILE", once=True, varies="", **about)


def argument(help: str, metavar: str, *, default: Any = MISSING, autocompletion: Callable[..., list[str]]) -> Any:
    """A field that is an argument, required without a default. autocompletion: returns the words that it may be."""
    required = default is MISSING
    about: Any = {"required": required, "autocompletion": autocompletion}
    return option(None if required else default, help, group=ARGUMENTS, metavar=metavar, once=True, **about)


def action(help: str, callback: Callable[..., Any], *, default: bool | None = False, **about: Any) -> Any:
    """A field that is an option which is obeyed at once, and has no value for the command. callback: obeys it."""
    return option(default, help, once=True, is_eager=True, expose_value=False, callback=callback, **about)


#: The group of what is not an option.
ARGUMENTS = "Arguments"


class GlobalOptions(Options):
    """The options that may come before or after the command; those after it count more, and -q and -v add up."""

    group = "Global"

    quiet: int = option(0, "print errors only (-qq: nothing)", flags=("-q", "--quiet"), once=True, count=True, varies="")
    verbose: int = option(
        0,
        "print decisions and timings (-vv: also llama.cpp's log)",
        flags=("-v", "--verbose"),
        once=True,
        count=True,
        varies="",
    )
    color: ColorMode = option(
        "auto",
        "when to use color (default: auto, which respects NO_COLOR and FORCE_COLOR)",
        varies="",
        variables=("FBRAG_COLOR",),
    )
    no_progress: bool = option(False, "print plain status lines, without progress bars and preview")
    offline: bool = option(False, "never use the network", variables=("FBRAG_OFFLINE", "HF_HUB_OFFLINE"))
    yes: bool = option(False, "answer yes to all prompts, including model downloads", flags=("-y", "--yes"), once=True)
    config: str | None = option(None, "use this configuration file ('none': use none)", once=True, metavar="FILE")

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
    group = "Document"

    password_file: str | None = option(None, "file with the password of a PDF ('-' for stdin)", metavar="FILE", once=True)


class DocumentOptions(PasswordOptions):
    arguments: list[str] = arguments(
        "files, folders or @NAMES of folders to search ('-' for stdin), then the question", "DOC... QUESTION", required=True
    )


#: The words of --format. A command may take only some of them.
FORMATS = ("text", "json", "jsonl", "md")


class OutputOptions(Options):
    group = "Output"

    format: Literal["text", "json", "jsonl", "md"] = option(
        "text", "output format: text, json, jsonl (streaming events), or md (Markdown)", flags=("-f", "--format")
    )
    json: bool = option(False, "same as --format json", once=True)
    output: str = output_file()
    html: str | None = option(None, "also write an HTML page with the sources highlighted", once=True, metavar="FILE")
    open: bool = option(
        False,
        "open that page in your browser (without --html: a private temporary file)",
        once=True,
    )
    exit_zero: bool = option(False, "exit 0 even if no answer is found")

    @property
    def form(self) -> str:
        return "json" if self.json else self.format


class AnswerOptions(Options):
    group = "Output"

    answer_only: bool = option(False, "print only the answer", flags=("-a", "--answer-only"))
    sources: Literal["cited", "all", "none"] = option(
        "cited", "sources to print: cited (and the locations of the others), all, or none"
    )
    context: str = option(
        "0",
        "lines to print before and after each sentence (all: the whole chunk)",
        flags=("-C", "--context"),
        words=("all",),
        minimum=0,
        metavar="N|all",
    )

    def __init__(self, *layers: Layer) -> None:
        super().__init__(*layers)
        self._typed = layers[-1]

    @property
    def lines(self) -> int | None:
        """How many lines are printed around a sentence; None for the whole chunk."""
        return None if self.context == "all" else int(self.context)

    def check(self, form: str) -> None:
        """Raise FbragError `usage` if one of these options is on the command line, and has no effect with this form."""
        ruling = f"--format {form}" if form in ("json", "jsonl") else "--answer-only" if self.answer_only else ""
        for name, declared in options_of(AnswerOptions).items():
            if ruling and name in self._typed and declared.typed != ruling:
                raise FbragError("usage", f"{declared.typed} has no effect with {ruling}", "leave out one of them")


_SHORTEST, _LONGEST = 0.001, 1e8  # seconds of a time limit: timers of macOS take no more than three years
_LIMIT = f"seconds, or {DURATION}, up to 3 years"


def _limit(text: str) -> float:
    """Return the seconds of a time limit. Raises ValueError."""
    if _SHORTEST <= (seconds := seconds_of(text, plain=True)) <= _LONGEST:
        return seconds
    raise ValueError(text)


def _time_limit(help: str) -> Any:
    return option(None, help, group="Run", metavar="TIME", form=_limit, accepts=_LIMIT)


class RunOptions(Options):
    group = "Run"

    timeout: str | None = _time_limit("give up after TIME, such as 90s or 15m (exit code 5)")

    @property
    def time_limit(self) -> float | None:
        """Seconds of --timeout; None for no limit."""
        return None if self.timeout is None else _limit(self.timeout)


def _at_once(help: str) -> Any:
    return option("auto", help, group="Run", flags=("-j", "--jobs"), words=("auto",), minimum=1, maximum=64, varies="")


class JobsOptions(Options):
    group = "Run"

    jobs: str = _at_once("questions to run at once; above 1, answers may differ by rounding (default: auto, 1 on a CPU)")

    @property
    def at_once(self) -> int | None:
        """How many questions run at once; None for as many as pay."""
        return None if self.jobs == "auto" else int(self.jobs)


class QuestionRunOptions(RunOptions):
    group = "Run"

    dry_run: bool = option(False, "show what would be done, without running a model", once=True)


class ExplainOptions(Options):
    group = "Explain"

    rows: int = option(20, "rows to print", flags=("-n", "--rows"), minimum=1)
    all: bool = option(False, "print all rows", once=True)
    sort: Literal["score", "position"] = option("score", "order of the rows")
    show_samples: bool = option(False, "print the forward samples and the chunk that each one matches best")
    find: str | None = option(
        None, "find the chunk that contains TEXT, and show why it was or was not selected", once=True, metavar="TEXT"
    )
    chunk: int | None = option(None, "print chunk N in full, with its matching terms", once=True, minimum=1)
    show_prompt: bool = option(False, "print the exact prompts of both models", once=True)


class BatchOptions(JobsOptions):
    group = "Jobs"

    documents: list[str] = arguments("files, or folders of which each file is a document", "DOC...")
    questions: str | None = option(
        None,
        "questions: text (one per line), CSV (question, name, type), or JSON; '-' for stdin",
        flags=("-Q", "--questions"),
        once=True,
        metavar="FILE",
    )
    pairs: str | None = option(
        None,
        "pairs of document and question: CSV or JSON",
        once=True,
        metavar="FILE",
    )
    merge: bool = option(False, "search all DOCs as one: one row per question", once=True)
    n_rows: int | None = option(None, "run only the first N rows", flags=("--limit",), once=True, minimum=1)
    shard: str | None = option(None, "run only part I of N, to split the work between machines", once=True, metavar="I/N")
    output: str = output_file(
        "write rows to FILE as they arrive: JSON Lines, or CSV if it ends in .csv (default: stdout)", group="Output"
    )
    html: str | None = option(
        None,
        "also write an HTML table of documents and questions, with the supporting sentences",
        group="Output",
        once=True,
        metavar="FILE",
    )
    wide: str | None = option(
        None,
        "also write a CSV with one row per document and the values or answers in columns",
        group="Output",
        once=True,
        metavar="FILE",
    )
    resume: bool = option(
        True,
        "resume an earlier run, or start over (default: resume)",
        flags=("--resume/--restart",),
        group="Run",
        once=True,
        varies="",
    )
    dry_run: bool = option(False, "print the number of rows and the estimated time only", group="Run", once=True)
    retry_errors: bool = option(False, "run failed rows again", group="Run", once=True)
    max_errors: int | None = option(None, "stop after N failed rows (default: no limit)", group="Run", minimum=1)
    fail_fast: bool = option(False, "stop at the first failed row", group="Run")
    engine: Literal["local", "ray"] = option(
        "local", "where to run: local, or ray (a Ray cluster) (default: local)", group="Cluster", varies=""
    )
    address: str | None = option(
        None,
        "a running Ray cluster: auto, or host:port (default: start one on this machine)",
        group="Cluster",
        metavar="ADDRESS",
    )

    @property
    def own_files(self) -> list[str]:
        """The files that a run writes, if they hold what an earlier run wrote: in a folder, they are no documents."""
        from fbrag_cli.batch.row import is_own, rows_of

        return [self.output, str(rows_of(self.output)), *(path for path in (self.html, self.wide) if path and is_own(Path(path)))]

    @property
    def most_errors(self) -> float:
        return 1 if self.fail_fast else self.max_errors or float("inf")


# -- of the commands that listen: `fbrag serve` and `fbrag ui` -----------------------------------------------------------------

PORT = 8377

_SITE = re.compile(r"(https?://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]+)?)|([a-z-]+-extension://[\w-]+)")


def _idle(text: str) -> float | None:
    """Return the seconds of --idle, None for never. Raises ValueError."""
    if text == "never":
        return None
    if seconds := seconds_of(text):
        return seconds
    raise ValueError(text)


class ListenOptions(JobsOptions, RunOptions):
    group = "Listen"

    documents: list[str] = arguments("documents and folders to serve", "DOC...")
    host: str | None = option(None, "address to listen on (default: 127.0.0.1)", once=True, metavar="ADDRESS")
    port: int | None = option(
        None,
        f"port to listen on; 0 for any free one (default: {PORT}, else any free one)",
        once=True,
        minimum=0,
        maximum=65535,
    )
    token_file: str | None = option(None, "file with the token that clients send (default: your own, made once)", metavar="FILE")
    origin: list[str] = option((), "allow web pages of this site, such as https://chat.example (repeatable)", metavar="URL")
    allow: list[str] = option(
        (), "let clients read files in DIR (repeatable; default: only the served documents)", group="Document", metavar="DIR"
    )
    timeout: str | None = _time_limit("stop a question after TIME, such as 90s or 15m, waiting included (default: no limit)")
    idle: str = option(
        "15m",
        "free models after this long without a question: 90s, 15m, 1h, or never",
        group="Run",
        metavar="TIME",
        form=_idle,
        accepts=f"{DURATION}, or never",
    )
    jobs: str = _at_once("questions to answer at once; above 1, answers may differ by rounding (default: auto, 1)")
    print_ready: bool = option(False, "print a JSON line on stdout when ready", group="Output", once=True)

    @property
    def idle_seconds(self) -> float | None:
        """Seconds of --idle; None for never."""
        return _idle(self.idle)

    @property
    def origins(self) -> frozenset[str]:
        """The sites of --origin, as browsers name them. Raises FbragError `usage`."""
        for site in self.origin:
            if not _SITE.fullmatch(site.lower()):
                raise FbragError(
                    "usage", f"invalid --origin {site}: expected a site", "name it without a path: https://chat.example"
                )
        return frozenset(each.lower() for each in self.origin)


# -- outputs -------------------------------------------------------------------------------------------------------------------


def check_outputs(outputs: Iterable[tuple[str, str | None]], inputs: Iterable[str | None]) -> None:
    """Raise FbragError `usage` if an output is the same file as another output or as one of `inputs`, under any name: the file
    would be overwritten.

    outputs: options with their paths; "-" is stdout. inputs: only looked at if an output exists; None for none.
    """
    files: dict[tuple[int, int] | str, tuple[str, str]] = {}
    for flag, path in outputs:
        if path and (file := _identity(path) or _unmade(path)):
            if file in files:
                raise FbragError("usage", f"{flag} {path} is already used for another output", f"choose another {flag} FILE")
            files[file] = flag, path
    existing = {file: named for file, named in files.items() if isinstance(file, tuple) and named[1] != "-"}
    for each in inputs if existing else ():
        if each and (file := _identity(each)) and (named := existing.get(file)):
            flag, path = named
            raise FbragError("usage", f"{flag} {path}: it is read, and would be overwritten", f"choose another {flag} FILE")


def files_of(documents: Iterable[str], reading: DocumentSettings) -> Iterator[str]:
    """Yield the files that documents mean: of a folder those that are read."""
    from fbrag_cli.indexing.walk import find_files

    for path in map(on_disk, documents):
        if os.path.isdir(path):
            with suppress(FbragError):  # a folder without any is reported when it is read
                yield from (file.path for file in find_files([path], *reading.chosen).files)
        else:
            yield path


def _identity(path: str) -> tuple[int, int] | None:
    """Return the device and the inode of a regular file, of the one that stdout is for "-"; None for any other path."""
    try:
        status = os.fstat(1) if path == "-" else os.stat(path)
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _unmade(path: str) -> str | None:
    """Return the path of a file that does not exist yet, with its links resolved; None if something has this path."""
    return None if path == "-" or os.path.exists(path) else os.path.realpath(path)
