"""The library llama_cpp. Where it does not load, importing this module is an FbragError that names the fix."""

from __future__ import annotations

from fbrag_cli.errors import lacking
from fbrag_cli.generation.build import not_loaded

try:
    import llama_cpp as llama_cpp
except (ImportError, AttributeError, OSError, RuntimeError) as error:  # llama_cpp has another one for each way of being broken
    raise lacking(error) or not_loaded(error) from error
