"""The retrieval gallery: queries with what they found, framed in three colours."""

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch.nn import functional as F

from hsearch.data.decoding import decode
from hsearch.report.canvas import AMBER, BLUE, DPI, GREY, INK, WINE, pixel_figure, shortened
from hsearch.report.looking import Look
from hsearch.report.retrieval import Found, choose_queries, find_neighbors
from hsearch.seeds import rng_for

NEIGHBORS = 8
TILE, FRAME, GAP = 104, 5, 10  # pixels
MARGIN, HEAD, HEADING, CAPTION, BETWEEN = 24, 92, 34, 34, 30

RIGHT, NEAR, WRONG, QUERY = BLUE, AMBER, WINE, INK
_WORDS = {
    "best": "Best queries: all or most of what they find first is right",
    "worst": "Worst queries",
    "random": "Queries chosen at random",
}

Pixels = NDArray[np.uint8]


def frame_colour(shared: int, num_levels: int) -> str:
    """Returns the colour for a neighbour that shares so many levels with the query."""
    if shared == num_levels:
        return RIGHT
    return NEAR if shared > 0 else WRONG


def place_of(row: int, column: int, headings: int) -> tuple[int, int]:
    """Returns top and left, in pixels, of the frame in a row below so many headings.

    Column 0 is the query; its neighbours begin at column 1.
    """
    top = HEAD + headings * HEADING + row * (TILE + CAPTION)
    left = MARGIN + column * (TILE + GAP) + (BETWEEN if column else 0)
    return top, left


def draw_gallery(look: Look) -> Figure:
    """Draws the best, the worst and some random queries with their nearest images."""
    embedded = look.after.embedded
    found = find_neighbors(embedded, NEIGHBORS)
    classes = embedded.labels[found.queries, -1]
    num_levels = len(look.levels)
    chosen = choose_queries(found, classes, num_levels, rng_for(look.job.seed, "gallery"))
    groups = {kind: queries for kind, queries in chosen.items() if len(queries)}
    count = sum(map(len, groups.values()))
    bottom, right = place_of(count, found.neighbors.shape[1] + 1, len(groups))
    sheet = np.full((bottom + MARGIN // 2, right - GAP + MARGIN, 3), 255, dtype=np.uint8)
    figure, axes = pixel_figure(sheet.shape[1], sheet.shape[0])
    _write_head(axes, look, num_levels)
    row = 0
    for number, (kind, queries) in enumerate(groups.items()):
        top = place_of(row, 0, number)[0]
        axes.text(MARGIN, top + 18, _WORDS[kind], size=10, weight="bold", color=INK, va="center")
        for query in queries:
            _draw_row(sheet, axes, look, found, int(query), row, number + 1)
            row += 1
    axes.imshow(sheet, interpolation="nearest", aspect="auto", zorder=0)
    return figure


def _draw_row(
    sheet: Pixels, axes: Axes, look: Look, found: Found, query: int, row: int, headings: int
) -> None:
    num_levels = len(look.levels)
    images = [int(found.queries[query]), *found.neighbors[query].tolist()]
    colours = [QUERY] + [frame_colour(int(s), num_levels) for s in found.shared[query]]
    for column, (image, colour) in enumerate(zip(images, colours, strict=True)):
        top, left = place_of(row, column, headings)
        store_row = int(look.rows[image])
        sheet[top : top + TILE, left : left + TILE] = np.multiply(to_rgb(colour), 255).round()
        inner = TILE - 2 * FRAME
        sheet[top + FRAME : top + FRAME + inner, left + FRAME : left + FRAME + inner] = thumbnail(
            decode(look.store.encoded(store_row)), inner
        )
        name = look.names(num_levels - 1)[int(look.after.embedded.labels[image, -1])]
        for line, (text, ink) in enumerate(
            ((name, INK), (look.store.ids[store_row].rpartition("/")[2], GREY))
        ):
            y = top + TILE + 8 + 11 * line
            axes.text(left, y, shortened(text, 17), size=6.5, color=ink, va="center")


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


def _write_head(axes: Axes, look: Look, num_levels: int) -> None:
    axes.text(
        MARGIN,
        26,
        f"{look.title}: what queries find",
        size=13,
        weight="bold",
        color=INK,
        va="center",
    )
    explained = [(QUERY, "query"), (RIGHT, f"right: same {look.levels[-1]}")]
    if num_levels > 1:
        explained.append((NEAR, f"same {look.levels[0]}, other {look.levels[-1]}"))
    explained.append((WRONG, "wrong"))
    left = float(MARGIN)
    for colour, words in explained:
        box = {"facecolor": colour, "edgecolor": "none", "pad": 0}
        axes.text(left, 60, "     ", size=8, va="center", bbox=box)
        axes.text(left + 26, 60, words, size=9, color=INK, va="center")
        left += 26 + 0.6 * 9 * DPI / 72 * len(words) + 24
