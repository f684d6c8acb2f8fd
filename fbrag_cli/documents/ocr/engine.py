"""The OCR engine: a picture becomes lines of text with their places. It is RapidOCR, whose package brings the PP-OCRv6 models."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from itertools import chain
from math import hypot
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fbrag_cli import installation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

#: The scripts that the models read. Of others they would write letters that look alike, with good scores.
SCRIPTS = ("Latin", "Han", "Hiragana", "Katakana")

_FIND_SIDE = 1280  # pixels of a page's longer side, in which lines are looked for; they are read in the whole picture
_TALL = 1.5  # height of a line in widths from which on it seems to be sideways
_MOSTLY = 0.5  # share of such lines on a page that is sideways
_DOUBTFUL = 0.75  # mean score of a page that may be upside down
_ENOUGH = 3  # characters of a line whose shape shows whether its page is sideways
_AS_GOOD = 0.9  # share of the weight of its lines as they lie, which those of the turned page must have


class OcrLine(NamedTuple):
    """A line of text, or a part of one that has much room on its sides. score: from 0 to 1.

    corners: x and y, in the units of the picture from its upper left corner, of the line's upper left, upper right, lower
    right and lower left corner, as its letters are read.
    """

    text: str
    score: float
    corners: tuple[float, ...]


def is_installed() -> bool:
    return all(map(find_spec, ("rapidocr", "onnxruntime", "PIL")))


@lru_cache(maxsize=1)
def version() -> str:
    """Return the engine with its version, as "rapidocr 3.10.0"; "" if it is not installed."""
    from importlib import metadata

    return f"rapidocr {metadata.version('rapidocr')}" if is_installed() else ""


def how_to_install() -> str:
    """Return the command that installs the engine."""
    return installation.extra("ocr")  # noqa: S610 (not Django's)


def read_lines(picture: NDArray[np.uint8]) -> tuple[list[OcrLine], int]:
    """Return the lines on a picture, and by how many quarters, clockwise, it was turned to read them.

    picture: shape (height, width, 3), blue first. The corners are those in the picture as it is given. Only a child process calls
    it: it takes seconds, and several hundred MB.
    """
    import numpy as np  # only a child that reads scans loads it

    found = {0: _lines(picture)}
    is_tall = [_height(line) > _TALL * _width(line) for line in found[0] if len(line.text) >= _ENOUGH]
    is_sideways, is_doubtful = sum(is_tall) > _MOSTLY * len(is_tall), mean_score(found[0]) < _DOUBTFUL
    if is_sideways or (found[0] and is_doubtful):
        # The engine turns a tall line anticlockwise to read it. If that fails, the page lies on its other side.
        turn = 2 if not is_sideways else 1 if is_doubtful else 3
        found[turn] = _lines(np.rot90(picture, -turn))
    weights = {turn: sum(line.score * len(line.text) for line in lines) for turn, lines in found.items()}
    weights[0] *= _AS_GOOD if is_sideways else 1
    turn = max(weights, key=lambda turn: weights[turn])
    sides = picture.shape[1::-1] if turn % 2 == 0 else picture.shape[:2]  # width and height of the turned picture
    return [line._replace(corners=turned(line.corners, -turn % 4, *sides)) for line in found[turn]], turn


def _lines(picture: NDArray[np.uint8]) -> list[OcrLine]:
    found = _engine()(picture.copy())  # a turned one is a view, which OpenCV does not take
    if found.boxes is None or found.txts is None:
        return []
    lines = zip(found.txts, found.scores, found.boxes, strict=True)
    return [OcrLine(text, float(score), tuple(chain.from_iterable(box.tolist()))) for text, score, box in lines]


@lru_cache(maxsize=1)
def _engine() -> Callable[..., Any]:
    # Read when ONNX Runtime is loaded; else it sends reports of its use to Microsoft, and keeps an identifier on the disk.
    os.environ |= dict.fromkeys(("ORT_DISABLE_TELEMETRY", "ORT_TELEMETRY_DISABLED"), "1")  # of all versions
    import cv2
    import onnxruntime
    import rapidocr

    onnxruntime.disable_telemetry_events()  # on Windows, where the variables have no effect
    cv2.setNumThreads(1)
    models = Path(rapidocr.__file__).with_name("models")
    finder, reader = (str(next(models.glob(f"*_{part}_*.onnx"))) for part in ("det", "rec"))
    engine: Callable[..., Any] = rapidocr.RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.text_score": 0.0,  # lines of a low score are dropped, and counted, by `page.py`
            "Global.max_side_len": 1 << 16,  # pages have the size that they are to have
            "Global.use_cls": False,  # a page that is upside down is turned as a whole
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            "Det.limit_type": "max",
            "Det.limit_side_len": _FIND_SIDE,
            "Rec.rec_batch_num": 1,  # in batches, short lines take the time of the longest
            "Det.model_path": finder,  # without a path, a model that is not there would be downloaded
            "Rec.model_path": reader,
        }
    )
    return engine


def _width(line: OcrLine) -> float:
    return hypot(line.corners[2] - line.corners[0], line.corners[3] - line.corners[1])


def _height(line: OcrLine) -> float:
    return hypot(line.corners[6] - line.corners[0], line.corners[7] - line.corners[1])


def mean_score(lines: Sequence[OcrLine]) -> float:
    """Return the mean score of the characters of lines; 0 without any."""
    return sum(line.score * len(line.text) for line in lines) / max(1, sum(len(line.text) for line in lines))


def turned(corners: Sequence[float], turn: int, width: float, height: float) -> tuple[float, ...]:
    """Return the places in a picture turned clockwise by quarters of places in it. width, height: of the unturned picture."""
    points = zip(corners[::2], corners[1::2], strict=True)
    return tuple(at for x, y in points for at in ((x, y), (height - y, x), (width - x, height - y), (y, width - x))[turn])
