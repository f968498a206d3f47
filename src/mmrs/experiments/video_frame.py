"""Pictures for videos: the game above, each reward term as a running curve below."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmrs.errors import MissingExtraError

Picture = NDArray[np.uint8]
WIDTH = 480
"""Of the video, in pixels; a multiple of 16, as video codecs want."""
STRIP = 48
"""Height of a curve; a multiple of 16."""
WINDOW = 240
"""Steps a curve shows."""
_COLOURS = (
    (240, 240, 240),
    (86, 180, 233),
    (230, 159, 0),
    (0, 158, 115),
    (204, 121, 167),
    (213, 94, 0),
)  # colour-blind safe
_BACK, _LINE = (18, 18, 24), (60, 60, 72)


class FrameDrawer:
    """Draws frame after frame; remembers the last steps of each term."""

    def __init__(self) -> None:
        try:
            from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415
        except ImportError as error:
            raise MissingExtraError("pillow", "video") from error
        self._image, self._draw = Image, ImageDraw
        self._font = ImageFont.load_default(12)
        self.curves: dict[str, deque[float]] = {}

    def draw(self, picture: Picture, terms: dict[str, float], caption: str) -> Picture:
        """One frame ``[H, WIDTH, 3]``: the picture at step t, the caption, and the terms up to step t."""
        for name, value in terms.items():
            self.curves.setdefault(name, deque(maxlen=WINDOW)).append(value)
        top = self._scaled(picture)
        height = top.height + 22 + STRIP * len(self.curves)
        canvas = self._image.new("RGB", (WIDTH, -(-height // 16) * 16), _BACK)
        canvas.paste(top, ((WIDTH - top.width) // 2, 0))
        pen = self._draw.Draw(canvas)
        pen.text((6, top.height + 3), caption, fill=_COLOURS[0], font=self._font)
        for i, (name, curve) in enumerate(self.curves.items()):
            self._curve(pen, top.height + 22 + STRIP * i, name, curve, _COLOURS[i % len(_COLOURS)])
        return np.asarray(canvas, np.uint8)

    def _scaled(self, picture: Picture) -> Any:
        height, width = picture.shape[:2]
        factor = min(WIDTH / width, 480 / height)
        # Whole factors keep the pixels of a game square and sharp.
        factor = int(factor) if factor >= 1 else factor
        size = (max(1, round(width * factor)), max(1, round(height * factor)))
        how = self._image.Resampling.NEAREST if factor >= 1 else self._image.Resampling.BILINEAR
        return self._image.fromarray(np.ascontiguousarray(picture)).resize(size, how)

    def _curve(self, pen: Any, top: int, name: str, values: deque[float], colour: tuple[int, int, int]) -> None:
        array = np.array(values, np.float64)
        low, high = min(float(array.min()), 0.0), max(float(array.max()), 0.0)
        high += (high - low == 0.0) * 1.0
        y = top + STRIP - 6 - (array - low) / (high - low) * (STRIP - 22)
        x = np.linspace(0, WIDTH - 1, WINDOW)[-len(array) :]
        zero = top + STRIP - 6 - (0.0 - low) / (high - low) * (STRIP - 22)
        pen.line([(0, zero), (WIDTH, zero)], fill=_LINE)
        if len(array) > 1:
            pen.line(np.stack([x, y], 1).ravel().tolist(), fill=colour, width=1)
        pen.text((6, top), f"{name}  {array[-1]:+.4g}", fill=colour, font=self._font)
