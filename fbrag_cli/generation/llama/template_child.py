"""What renders a chat template in a child process, within limits of time and memory. The template is untrusted."""

from __future__ import annotations

import json
import sys
from secrets import token_hex
from typing import Any

from fbrag_cli.limits import limit_resources

_MOST_CHARACTERS = 100_000  # that a template writes; the markup of three turns has a few hundred
_MOST_OF_A_REASON = 300  # characters


def main() -> None:
    """Read a request from stdin, and write the outcome of each of its renderings to stdout."""
    template_of = _sandbox().from_string  # loaded while the parent loads the weights
    request = json.load(sys.stdin.buffer)
    limit_resources(CPU=request["cpu_seconds"], AS=request["memory"])  # on Windows, the parent's limit of time is the only one
    outcomes = [_outcome(template_of, request["source"], *each) for each in request["renderings"]]
    print(json.dumps(outcomes), flush=True)


def _outcome(template_of: Any, source: str, roles: list[str], variables: dict[str, Any]) -> dict[str, object]:
    """Return what stands before, between and after the words of turns with these roles, or the problem."""
    try:
        return {"pieces": _pieces(template_of(source), roles, variables)}
    except Exception as error:  # whatever an untrusted template does
        return {"problem": f"{type(error).__name__}: {error}"[:_MOST_OF_A_REASON]}


def _pieces(template: Any, roles: list[str], variables: dict[str, Any]) -> list[str]:
    """Render turns whose words are placeholders. Returns the text around them: one piece more than turns."""
    marks = [f"turn-{token_hex(16)}" for _ in roles]
    messages = [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)]
    rest = _bounded(template.generate(messages=messages, add_generation_prompt=True, **variables))
    pieces = []
    for mark in marks:
        if rest.count(mark) != 1:
            raise ValueError("the template leaves out or repeats the words of a turn")
        before, _, rest = rest.partition(mark)
        pieces.append(before)
    return [*pieces, rest]


def _bounded(written: Any) -> str:
    text = ""
    for piece in written:
        text += piece
        if len(text) > _MOST_CHARACTERS:
            raise ValueError("the template writes without end")
    return text


def _generation_block() -> Any:
    """Return the extension for a block around the words of an assistant, which marks them for training."""
    from jinja2.ext import Extension

    class Generation(Extension):
        def __init__(self, environment: Any) -> None:
            super().__init__(environment)
            self.tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    return Generation


def _sandbox() -> Any:
    from jinja2.exceptions import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise TemplateError(message)

    sandbox = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _generation_block()]
    )
    sandbox.globals["raise_exception"] = refuse
    sandbox.globals["strftime_now"] = lambda form: ""  # a prompt that holds the date would differ from day to day
    return sandbox
