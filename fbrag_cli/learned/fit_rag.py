"""The trained parts of FIT-RAG, in a folder: scorer.gguf, fit-rag.safetensors and fit-rag.json. Pickles are never read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fbrag_cli.errors import FbragError
from fbrag_cli.learned.document_scorer import DocumentScorer
from fbrag_cli.learned.self_knowledge import Recognizer
from fbrag_cli.learned.token_reducer import Detector
from fbrag_cli.storage.files import read_small, sha256_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT = "fbrag.fit-rag/1"
ABOUT, SCORER, TENSORS = "fit-rag.json", "scorer.gguf", "fit-rag.safetensors"
_LARGEST_ABOUT = 1_000_000  # bytes
_LARGEST_TENSORS = 256_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRagParts:
    """model: name and SHA-256 of the language model whose labels were learnt. languages: of the rows that it was trained on (ISO
    639-1). detector, recognizer: None where the folder has none."""

    scorer: DocumentScorer
    detector: Detector | None
    recognizer: Recognizer | None = None
    model: Mapping[str, str]
    languages: tuple[str, ...]


def load(folder: Path, open_scorer: Callable[[Path], DocumentScorer]) -> FitRagParts:
    """Return the parts of a folder. open_scorer: loads a GGUF file.

    Raises FbragError: model_missing without a folder or file; model_corrupt for another format, a file that is not the one that
    was written, or numbers that are none.
    """
    about = _about(folder)
    files = {name: folder / name for name in about["files"]}
    for name, path in files.items():
        _check(path, about["files"][name])
    tensors = _tensors(files[TENSORS]) if TENSORS in files else {}
    detector, recognizer = about.get("detector"), about.get("recognizer")
    return FitRagParts(
        scorer=open_scorer(files[SCORER]),
        detector=Detector.of(tensors, detector["threshold"]) if detector else None,
        recognizer=Recognizer.of(tensors, recognizer) if recognizer else None,
        model=about["model"],
        languages=tuple(about["languages"]),
    )


def _about(folder: Path) -> dict[str, Any]:
    path = folder / ABOUT
    try:
        about = json.loads(read_small(path, _LARGEST_ABOUT))
    except OSError as error:
        what = f"{folder} holds no trained parts of FIT-RAG: {ABOUT} cannot be read ({error.strerror or error})"
        raise FbragError("model_missing", what, "train them: fbrag train fit-rag --help") from None
    except (ValueError, RecursionError):
        raise _corrupt(path, "it is no JSON") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise _corrupt(path, f"its format is not {FORMAT}")
    if not _fits(about):
        raise _corrupt(path, "it lacks what it should name")
    return about


def _fits(about: Mapping[str, Any]) -> bool:
    files, model, languages = about.get("files"), about.get("model"), about.get("languages")
    detector, recognizer = about.get("detector"), about.get("recognizer")
    return (
        isinstance(files, dict)
        and SCORER in files
        and files.keys() <= {SCORER, TENSORS}
        and all(isinstance(digest, str) for digest in files.values())
        and isinstance(model, dict)
        and all(isinstance(model.get(key), str) for key in ("name", "sha256"))
        and isinstance(languages, list)
        and all(isinstance(language, str) for language in languages)
        and (detector is None or (isinstance(detector, dict) and isinstance(detector.get("threshold"), int | float)))
        and (recognizer is None or _names_numbers(recognizer))
        and (TENSORS in files) == (detector is not None or recognizer is not None)
    )


def _names_numbers(recognizer: object) -> bool:
    names = {"k", "delta", "told", "known"}
    if not isinstance(recognizer, dict) or recognizer.keys() != names:
        return False
    return all(isinstance(number, int | float) for number in recognizer.values())


def _check(path: Path, expected: str) -> None:
    try:
        found = sha256_of(path)
    except OSError as error:
        what = f"{path} cannot be read: {error.strerror or error}"
        raise FbragError("model_missing", what, "copy the folder again, or train it anew") from None
    if found != expected:
        raise _corrupt(path, f"its SHA-256 is {found}, and {ABOUT} names {expected}")


def _tensors(path: Path) -> dict[str, NDArray[Any]]:
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import load as parse

    try:
        tensors = parse(read_small(path, _LARGEST_TENSORS))
    except (SafetensorError, ValueError, KeyError, OSError) as error:
        raise _corrupt(path, f"it is no safetensors file ({error})") from None
    if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
        raise _corrupt(path, "it holds what are no numbers (NaN)")
    return tensors


def _corrupt(path: Path, what: str) -> FbragError:
    return FbragError("model_corrupt", f"{path} cannot be used: {what}", "copy the folder again, or train it anew")
