"""Sheets of images in frames with captions, pixel by pixel."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import NDArray
from torch.nn import functional as F

from hsearch.report.canvas import AMBER, BLUE, DPI, GREY, INK, WINE, pixel_figure, shortened

FRAME, GAP = 5, 10  # pixels
MARGIN, HEAD, HEADING, BETWEEN = 24, 92, 34, 30
_LINE = 11  # between lines of a caption

RIGHT, NEAR, WRONG, QUERY = BLUE, AMBER, WINE, INK

Pixels = NDArray[np.uint8]
Spot = tuple[int, int, int]
"""Row, column, and how many headings there are above."""


@dataclass(frozen=True)
class Grid:
    """Where the frames of a sheet are.

    Attributes:
        tile: Side of a frame, in pixels.
        lines: Of the caption below a frame.
    """

    tile: int
    lines: int = 2

    @property
    def inner(self) -> int:
        """Side of what a frame holds, in pixels."""
        return self.tile - 2 * FRAME

    def place(self, row: int, column: int, headings: int) -> tuple[int, int]:
        """Returns top and left, in pixels, of the frame in a row below so many headings.

        Column 0 stands a little apart: it is what the others belong to.
        """
        top = HEAD + headings * HEADING + row * (self.tile + _LINE * self.lines + 12)
        left = MARGIN + column * (self.tile + GAP) + (BETWEEN if column else 0)
        return top, left


class Sheet:
    """A sheet that is being filled."""

    def __init__(self, grid: Grid, rows: int, columns: int, headings: int) -> None:
        bottom, right = grid.place(rows, columns, headings)
        self._grid = grid
        self._pixels = np.full((bottom + MARGIN // 2, right - GAP + MARGIN, 3), 255, dtype=np.uint8)
        self._figure, self._axes = pixel_figure(self._pixels.shape[1], self._pixels.shape[0])

    def title(self, words: str) -> None:
        """Writes above everything, smaller where the words are many."""
        text = self._write(MARGIN, 26, words, size=13, weight="bold", color=INK)
        room, width = self._pixels.shape[1] - 2 * MARGIN, text.get_window_extent().width
        if width > room:
            text.set_fontsize(13 * room / width)

    def heading(self, row: int, headings: int, words: str) -> None:
        """Writes above a row, below the headings that are there already."""
        self._write(MARGIN, self._top(row, headings) + 18, words, size=10, weight="bold", color=INK)

    def explain(self, colours: Sequence[tuple[str, str]], middle: float = 60) -> None:
        """Says what colours of frames mean, in a line at that height."""
        left = float(MARGIN)
        for colour, words in colours:
            box = {"facecolor": colour, "edgecolor": "none", "pad": 0}
            self._write(left, middle, "     ", size=8, bbox=box)
            self._write(left + 26, middle, words, size=9, color=INK)
            left += 26 + 0.6 * 9 * DPI / 72 * len(words) + 24

    def explain_below(self, row: int, headings: int, colours: Sequence[tuple[str, str]]) -> None:
        """Says what colours of frames mean, in the place of a heading."""
        self.explain(colours, self._top(row, headings) + 14)

    def note(self, x: float, y: float, words: str) -> None:
        """Writes a few words, from that place on."""
        self._write(x, y, words, size=9, color=INK)

    def put(self, spot: Spot, inside: Pixels, colour: str, caption: Sequence[str]) -> None:
        """Puts an image into a frame, and the lines of its caption below.

        Args:
            spot: Where.
            inside: (grid.inner, grid.inner, 3).
            colour: Of the frame.
            caption: At most `grid.lines`; the last one is in grey.
        """
        top, left = self._grid.place(*spot)
        tile, inner = self._grid.tile, self._grid.inner
        self._pixels[top : top + tile, left : left + tile] = np.multiply(
            to_rgb(colour), 255
        ).round()
        self._pixels[top + FRAME : top + FRAME + inner, left + FRAME : left + FRAME + inner] = (
            inside
        )
        for line, text in enumerate(caption):
            ink = GREY if line == len(caption) - 1 else INK
            words = shortened(text, self._grid.tile // 6)
            self._write(left, top + tile + 8 + _LINE * line, words, size=6.5, color=ink)

    def paint(self, top: int, left: int, pixels: Pixels) -> None:
        """Paints (H, W, 3) without a frame."""
        height, width = pixels.shape[:2]
        self._pixels[top : top + height, left : left + width] = pixels

    def figure(self) -> Figure:
        """Returns what was put on the sheet as a picture."""
        self._axes.imshow(self._pixels, interpolation="nearest", aspect="auto", zorder=0)
        return self._figure

    def _top(self, row: int, headings: int) -> int:
        return self._grid.place(row, 0, headings)[0]

    def _write(self, x: float, y: float, words: str, **style: Any) -> Text:  # noqa: ANN401
        return self._axes.text(x, y, words, va="center", parse_math=False, **style)


def thumbnail(image: torch.Tensor, size: int) -> Pixels:
    """Returns (size, size, 3): an image (3, H, W) as large as it fits, on white."""
    height, width = image.shape[1:]
    scale = size / max(height, width)
    shape = max(1, round(height * scale)), max(1, round(width * scale))
    if scale >= 1:
        scaled = F.interpolate(image[None].float(), shape, mode="nearest")
    else:
        scaled = F.interpolate(image[None].float(), shape, mode="bilinear", antialias=True)
    tile = np.full((size, size, 3), 255, dtype=np.uint8)
    top, left = (size - shape[0]) // 2, (size - shape[1]) // 2
    pixels = scaled[0].permute(1, 2, 0).round().clamp(0, 255).byte().numpy()
    tile[top : top + shape[0], left : left + shape[1]] = pixels
    return tile
