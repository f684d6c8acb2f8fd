"""What has to be set in a process before llama_cpp is first imported. This module imports nothing of it."""

from __future__ import annotations

import os


def limit_spinning() -> None:
    """Let the OpenMP threads of llama.cpp wait in a loop for microseconds only, then sleep; a user's own setting stays.

    libgomp's default is milliseconds after each operation. With two threads on two cores beside much other work a question takes
    three times as long with it; alone it is no faster. libgomp reads the variable once, when importing llama_cpp loads it.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
