"""The value of an option, read from the text that the user typed. Typer's own reading loads Pydantic, half of the start."""

from __future__ import annotations

import os
from typing import Any

from fbrag_cli.errors import FbragError
from fbrag_cli.methods.knobs import kind_of
from fbrag_cli.storage.config_key import Accepted
from fbrag_cli.text.near import suggestion


class OptionValue:
    """Takes the place of Typer's `RuntimeParam` for one option or argument."""

    def __init__(self, parameter: Any) -> None:
        kind, choices = kind_of(parameter.type_descriptor.annotation)
        self._accepted = Accepted(kind=kind, choices=choices, minimum=parameter.min, maximum=parameter.max)

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value of a text, a list for several. Raises FbragError `usage`, with what the option expects."""
        if param.multiple or param.nargs == -1:
            several = value.split() if isinstance(value, str) else value or ()  # of the configuration file, as of a variable
            return [self._read(each, param, ctx) for each in several]
        return self._read(value, param, ctx)

    def _read(self, text: Any, param: Any, ctx: Any) -> Any:
        if not isinstance(text, str):  # a default, or a value of the configuration file
            return text
        value = self._accepted.parsed(text)
        if value is None:
            name = _variable(param, ctx) or max(param.opts, key=len)
            hint = suggestion(text.lower(), self._accepted.choices, f"{ctx.command_path} --help")
            raise FbragError("usage", f"{name} {text}: expected {self._accepted.expects}", hint)
        return value


def _variable(parameter: Any, context: Any) -> str | None:
    """Return the environment variable that sets an option, None where another thing does."""
    source = context.get_parameter_source(parameter.name)
    is_variable = source is not None and source.name == "ENVIRONMENT"
    return next((name for name in parameter.envvar if os.environ.get(name)), None) if is_variable else None
