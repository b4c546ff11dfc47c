"""Where a network looks in an image for each of its labels."""

import matplotlib
import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch.nn import functional as F

from hsearch.report.label_looking import SHOWN_LABELS, AttendedImage, LabelLook, shown_labels
from hsearch.report.tiles import MARGIN, QUERY, RIGHT, WRONG, Grid, Pixels, Sheet, thumbnail

GRID = Grid(tile=150)
COLOURS = matplotlib.colormaps["inferno"]
"""Even steps of attention are even steps of lightness, which all eyes see alike."""

_SCALE = 160  # pixels of the bar that explains the colours
_GREY = torch.tensor([0.299, 0.587, 0.114])

Floats = NDArray[np.float32]


FULL = 3
"""How many times an even share of attention has the strongest colour."""


def draw_attention(look: LabelLook) -> Figure:
    """Draws a row per chosen image: as the network saw it, then what it attends to for its labels.

    The labels are those that the image has, most confident first, with the mean over heads. Below
    are the single heads of one image and label, where there are several.
    """
    pair = _pair_of_heads(look)
    head_rows = 0 if pair is None else -(-pair[0].weights.shape[1] // SHOWN_LABELS)
    rows = len(look.attended) + head_rows
    sheet = Sheet(GRID, rows, SHOWN_LABELS + 1, 2 if head_rows else 1)
    sheet.title(f"{look.title}: where the network looks for a label")
    sheet.explain(
        [
            (QUERY, "as the network saw it"),
            (RIGHT, "label of the image, predicted"),
            (WRONG, "label of the image, missed"),
        ]
    )
    _draw_scale(sheet)
    for row, attended in enumerate(look.attended):
        _draw_image(sheet, look, attended, row)
    if pair is not None:
        _draw_heads(sheet, look, *pair, row=len(look.attended))
    return sheet.figure()


def overlay(pixels: Pixels, weights: Floats, size: int) -> Pixels:
    """Returns (size, size, 3): an image in grey under the colours of an attention map.

    Args:
        pixels: (3, S, S) uint8.
        weights: (h, w), none below 0. 0 has the first colour, and FULL times an even share the
            last; so has the largest one if it is more.
        size: In pixels.
    """
    grey = torch.from_numpy(pixels.transpose(1, 2, 0).copy()).float() @ _GREY
    image = thumbnail(grey[None].expand(3, -1, -1), size).astype(np.float64) / 255
    full = max(float(weights.max()), FULL / weights.size)
    relative = torch.from_numpy(weights / full)
    smooth = F.interpolate(relative[None, None].float(), (size, size), mode="bilinear")[0, 0]
    colours = COLOURS(smooth.clamp(0, 1).numpy())[..., :3]
    blended: Pixels = np.multiply(0.4 * image + 0.6 * colours, 255).round().astype(np.uint8)
    return blended


def _draw_scale(sheet: Sheet) -> None:
    """Draws which colour means how much attention."""
    top = GRID.place(0, 0, 0)[0]
    bar = np.multiply(COLOURS(np.linspace(0, 1, _SCALE))[None, :, :3], 255).round()
    sheet.paint(top, MARGIN, np.broadcast_to(bar.astype(np.uint8), (12, _SCALE, 3)))
    words = f"from none to {FULL} x an even look, or to the most in that map; mean over heads"
    sheet.note(MARGIN + _SCALE + 10, top + 6, words)


def _draw_image(sheet: Sheet, look: LabelLook, attended: AttendedImage, row: int) -> None:
    has, scores = look.after.labels[attended.image], look.after.scores[attended.image]
    labels = shown_labels(has, scores)
    _draw_seen(sheet, look, attended, row, _more_labels(int(has.sum()) - len(labels)), 1)
    for column, label in enumerate(labels.tolist(), start=1):
        mean = attended.weights[label].mean(axis=0)
        caption = (look.names[label], _verdict(float(scores[label])))
        inside = overlay(attended.pixels, mean, GRID.inner)
        sheet.put((row, column, 1), inside, _colour(float(scores[label])), caption)


def _draw_heads(
    sheet: Sheet, look: LabelLook, attended: AttendedImage, label: int, row: int
) -> None:
    sheet.heading(row, 1, f"The single heads of {look.names[label]}")
    _draw_seen(sheet, look, attended, row, look.names[label], 2)
    colour = _colour(float(look.after.scores[attended.image, label]))
    for head, weights in enumerate(attended.weights[label]):
        spot = (row + head // SHOWN_LABELS, 1 + head % SHOWN_LABELS, 2)
        inside = overlay(attended.pixels, weights, GRID.inner)
        sheet.put(spot, inside, colour, (f"head {head + 1}",))


def _draw_seen(
    sheet: Sheet, look: LabelLook, attended: AttendedImage, row: int, words: str, headings: int
) -> None:
    inside = thumbnail(torch.from_numpy(attended.pixels), GRID.inner)
    caption = [text for text in (words, look.short_id(attended.image)) if text]
    sheet.put((row, 0, headings), inside, QUERY, caption)


def _pair_of_heads(look: LabelLook) -> tuple[AttendedImage, int] | None:
    """The chosen image and its label that the network is the surest of, if it has several heads."""
    pairs = [
        (float(look.after.scores[attended.image, label]), -place, -label)
        for place, attended in enumerate(look.attended)
        for label in np.flatnonzero(look.after.labels[attended.image]).tolist()
        if attended.weights.shape[1] > 1
    ]
    if not pairs:
        return None
    _, place, label = max(pairs)
    return look.attended[-place], -label


def _colour(score: float) -> str:
    return RIGHT if score >= 0 else WRONG


def _verdict(score: float) -> str:
    """The probability of a logit, and whether it suffices."""
    probability = float(torch.tensor(score).sigmoid())
    return f"{probability:.2f}, {'predicted' if score >= 0 else 'missed'}"


def _more_labels(count: int) -> str:
    return f"{count} more label{'s' * (count > 1)}" if count > 0 else ""
