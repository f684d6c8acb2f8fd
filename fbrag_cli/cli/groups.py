"""`takes`: a command names the groups of options that it takes, and gets them as frozen records.

@app.command("ask")
@takes(DocumentOptions, MethodOptions)
def ask(console: Console, documents: DocumentOptions, method: MethodOptions) -> None: ...
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_type_hints

import typer

from fbrag_cli.cli.completion import usable_models
from fbrag_cli.cli.options import CANCELLATION, GlobalOptions
from fbrag_cli.methods.knobs import setting_of


def takes(
    *groups: type[Any], narrowed: Mapping[str, Field[Any]] = MappingProxyType({})
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a function `(console, *groups)` the signature that Typer reads: the context, and the fields of all groups.

    A group is a dataclass of options or of knobs, or a record whose fields are such groups. narrowed: a field, by its name, that
    is declared otherwise for this command.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def command(typer_context: typer.Context, **values: Any) -> Any:
            options = _record(GlobalOptions, values)
            if isinstance(before := typer_context.obj, GlobalOptions):
                options = options.over(before)
            typer_context.find_root().obj = options
            console = options.console(typer_context.meta.get(CANCELLATION))
            if "fast" in values:
                from fbrag_cli.cli.method_options import with_preset

                values = with_preset(values, {name: _origin(typer_context, name) for name in values})
            gc.freeze()  # what was made so far stays to the end (`cli.main`)
            gc.enable()
            return function(console, *(_record(group, values) for group in groups))

        context = inspect.Parameter("typer_context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        parameters = [context]
        flat = tuple(leaf for group in groups for leaf in leaves(group))
        for group in (*flat, GlobalOptions):
            hints = get_type_hints(group)
            for each in fields(group):
                declared = narrowed.get(each.name, each)
                annotation: Any = Annotated[hint_of(declared, hints), option_of(declared)]
                default = inspect.Parameter.empty if each.name == "arguments" or each.default is MISSING else each.default
                parameters.append(
                    inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
                )
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.groups = flat  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        command.__name__, command.__doc__, command.__module__ = function.__name__, function.__doc__, function.__module__
        return command

    return decorate


def leaves(group: type[Any]) -> Iterator[type[Any]]:
    """Yield the groups of a record of groups, or the group itself."""
    hints = get_type_hints(group)
    nested = [hints[each.name] for each in fields(group) if is_dataclass(hints[each.name])]
    if not nested:
        yield group
    for each in nested:
        yield from leaves(each)


def hint_of(declared: Field[Any], hints: Mapping[str, Any]) -> Any:
    """Return the type of a field's values, with the words that it takes."""
    about = declared.metadata.get("knob")
    return Literal[about.choices] if about and about.choices else hints[declared.name]


def option_of(declared: Field[Any]) -> Any:
    """Return Typer's option for a field made by `option`, `arguments`, `argument` or `knob`."""
    if "option" in declared.metadata:
        return declared.metadata["option"]
    setting = setting_of(declared, Any)  # Typer reads the type from the signature
    about = setting.knob
    more = dict(declared.metadata.get("typer", {}))
    if not about.words:
        more |= {"min": about.minimum, "max": about.maximum}
    if about.metavar == "MODEL":
        more["autocompletion"] = usable_models
    return typer.Option(
        *setting.names,
        help=setting.help,
        rich_help_panel=about.group,
        metavar=about.metavar,
        envvar=list(setting.variables),
        show_envvar=False,
        show_default=False,
        **more,
    )


def _origin(context: typer.Context, name: str) -> str:
    """Return where an option's value comes from: COMMANDLINE, ENVIRONMENT, DEFAULT_MAP (the configuration file) or DEFAULT."""
    source = context.get_parameter_source(name)
    return source.name if source else "DEFAULT"


def _record(group: type[Any], values: dict[str, Any]) -> Any:
    hints = get_type_hints(group)
    nested = {each.name for each in fields(group) if is_dataclass(hints[each.name])}
    return group(
        **{each.name: _record(hints[each.name], values) if each.name in nested else values[each.name] for each in fields(group)}
    )
