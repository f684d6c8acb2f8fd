"""What is wrong with a field that a client sends, in words that are the same for every protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.suggest import suggestion

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

SHOWN = 60  # characters of what was sent, in a message

#: What is wrong with a value, by the type of pydantic's error.
_SAID = {
    "missing": "it is needed",
    "extra_forbidden": "there is no such key",
    "string_type": "a text is needed",
    "list_type": "a list is needed",
    "dict_type": "an object is needed",
    "model_type": "an object is needed",
    "int_type": "a whole number is needed",
    "int_parsing": "a whole number is needed",
    "bool_parsing": "true or false is needed",
    "too_short": "it is empty",
    "string_too_short": "it is empty",
    "string_too_long": "it has more than {max_length:,} characters",
    "greater_than_equal": "it must be at least {ge}",
    "less_than_equal": "it must be at most {le}",
    "literal_error": "it must be {expected}",
    "too_long": "it has more than {max_length:,} entries",
    "float_type": "a number is needed",
    "float_parsing": "a number is needed",
}


class FieldError(FbragError):
    """A field of a request that is not accepted. param: its name."""

    def __init__(self, param: str, message: str, hint: str | None = None) -> None:
        super().__init__("usage", f"{param}: {message}" if param else message, hint)
        self.param = param


def first_fault(errors: ValidationError, kind: type[BaseModel]) -> FieldError:
    """Return the error of the first field that is not accepted. kind: the record whose fields they are."""
    found = errors.errors(include_url=False, include_input=False)
    error = min(found, key=lambda each: each["type"] != "extra_forbidden")  # a misspelled field is missing, too
    where = [one_line(str(each), SHOWN) for each in error["loc"]]
    name, known = where[0], [*kind.model_fields]
    hint = kind.model_fields[name].description if name in known else suggestion(name, known, f"one of {', '.join(known)}")
    said = _SAID[error["type"]].format_map(error.get("ctx", {})) if error["type"] in _SAID else error["msg"]
    return FieldError(".".join(where), said.removeprefix("Value error, "), hint)
