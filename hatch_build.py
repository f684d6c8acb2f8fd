"""The page of fbrag on a package index: README.md, whose links lead to the repository.

On an index README.md has no files next to it. pyproject.toml names the repository: [project.urls], Repository.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?\[[^]]*\])\((?!https?:|#)([^)]+)\)")


class Page(MetadataHookInterface):
    """Sets the field `readme`. Without an address of the repository README.md stays as it is; .ci/package refuses that."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the text of the page to `metadata`."""
        text = Path(self.root, "README.md").read_text("utf-8")
        address = metadata.get("urls", {}).get("Repository", "").rstrip("/")
        if address:
            text = _LINK.sub(lambda link: self._absolute(*link.groups(), f"{address}/{{}}/v{metadata['version']}/"), text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}

    @staticmethod
    def _absolute(name: str, target: str, folder: str) -> str:
        return f"{name}({folder.format('raw' if name.startswith('!') else 'blob')}{target})"
