"""The trained parts of FIT-RAG, in a folder: scorer.gguf, fit-rag.safetensors and fit-rag.json. Pickles are never read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fbrag_cli.generation.generator import Scorer
from fbrag_cli.methods.parts import PartsFormat, is_count, is_files, is_number, is_texts, read_tensors, refuse

if TYPE_CHECKING:
    from fbrag_cli.methods.fit_rag.detector import Detector
    from fbrag_cli.methods.fit_rag.recognizer import Recognizer

SCORER = "scorer.gguf"
#: Labels of the scorer (section 4.2): a text holds the answer, and the language model answers from it.
LABELS = ("has_answer", "llm_prefer")
FIT_RAG = PartsFormat("FIT-RAG", "fbrag.fit-rag/1", "fit-rag.json", "fit-rag.safetensors")


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRagParts:
    """The trained parts.

    model: name and SHA-256 of the language model whose labels were learnt. languages: languages (ISO 639-1) of the rows that the
    parts were trained on. detector, recognizer: None where the folder has none."""

    scorer: Scorer
    detector: Detector | None
    recognizer: Recognizer | None = None
    model: Mapping[str, str]
    languages: tuple[str, ...]


def load(folder: Path, open_scorer: Callable[[Path], Scorer]) -> FitRagParts:
    """Return the parts of a folder. open_scorer: loads a GGUF file.

    Raises FbragError: model_missing without a folder or file; model_corrupt for another format, a file that is not the one that
    was written, or numbers that are none.
    """
    from fbrag_cli.methods.fit_rag.detector import Detector
    from fbrag_cli.methods.fit_rag.recognizer import Recognizer

    about = FIT_RAG.read(folder, _fits)
    FIT_RAG.check_files(folder, about["files"])
    tensors = read_tensors(folder / FIT_RAG.tensors) if FIT_RAG.tensors in about["files"] else {}
    detector, recognizer = about.get("detector"), about.get("recognizer")
    scorer = open_scorer(folder / SCORER)
    if scorer.labels != LABELS:
        refuse(folder / SCORER, f"its outputs are {', '.join(scorer.labels) or 'none'}, not {' and '.join(LABELS)}")
    return FitRagParts(
        scorer=scorer,
        detector=Detector.of(tensors, detector["threshold"]) if detector else None,
        recognizer=Recognizer.of(tensors, recognizer) if recognizer else None,
        model=about["model"],
        languages=tuple(about["languages"]),
    )


def _fits(about: Mapping[str, Any]) -> bool:
    files, detector, recognizer = about.get("files"), about.get("detector"), about.get("recognizer")
    return (
        isinstance(files, dict)
        and is_files(files, {SCORER, FIT_RAG.tensors}, {SCORER})
        and is_texts(about.get("model"), "name", "sha256")
        and is_texts(about.get("languages"))
        and (detector is None or (isinstance(detector, dict) and is_number(detector.get("threshold"))))
        and (recognizer is None or _names_numbers(recognizer))
        and (FIT_RAG.tensors in files) == (detector is not None or recognizer is not None)
    )


def _names_numbers(recognizer: object) -> bool:
    names = {"k", "delta", "told", "known"}
    if not isinstance(recognizer, dict) or recognizer.keys() != names:
        return False
    return all(map(is_number, recognizer.values())) and is_count(recognizer["k"])
