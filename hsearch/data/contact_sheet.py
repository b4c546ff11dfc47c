"""A picture of a store: images of classes from all over the hierarchy, under their labels."""

import io
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, PngImagePlugin, UnidentifiedImageError

from hsearch.data.images import FORMATS
from hsearch.data.store import Store
from hsearch.errors import DatasetError
from hsearch.files import write_whole

WIDTH = 1080
"""Of the picture, in pixels."""

_GROUPS = 6
_STRIPS = 12
_IMAGES = 16
"""Most of them in a strip, if they are narrow."""

_HEIGHT = 100
_LONGEST = 3 * _HEIGHT
_GAP = 4
_MARGIN = 20
_LINE = 24
_HEADING = 40
_TITLE = 52
_PAPER, _INK, _GREY = (255, 255, 255), (25, 25, 25), (120, 120, 120)
_TEXT, _LARGE, _TITLE_TEXT = 14, 20, 26
_MARK = ("Software", "hsearch contact sheet")


@dataclass(frozen=True)
class _Strip:
    """Images under one caption; the first strip of a group has a heading."""

    heading: tuple[str, str] | None
    caption: tuple[str, str]
    rows: NDArray[np.int64]

    @property
    def height(self) -> int:
        return (_HEADING if self.heading else 0) + _LINE + _HEIGHT + 3 * _GAP


def write_contact_sheet(store: Store, path: Path) -> None:
    """Writes a PNG; the same store gives the same bytes.

    Raises:
        DatasetError: The file cannot be written, or holds something else than a former sheet.
    """
    if path.exists() and not _is_sheet(path):
        raise DatasetError(
            f"A contact sheet would replace {path}, which is something else; name another file "
            "with --sheet FILE.png."
        )
    mark = PngImagePlugin.PngInfo()
    mark.add_text(*_MARK)
    file = io.BytesIO()
    draw_contact_sheet(store).save(file, "PNG", pnginfo=mark)
    try:
        write_whole(path, file.getvalue())
    except OSError as error:
        raise DatasetError(
            f"The contact sheet cannot be written to {path} ({error.strerror}); name another file "
            "with --sheet FILE.png."
        ) from None


def draw_contact_sheet(store: Store) -> Image.Image:
    """Returns the picture: strips of images from evenly spread groups, classes and rows."""
    strips = list(_tag_strips(store) if store.tag_names else _class_strips(store))
    height = 2 * _MARGIN + _TITLE + sum(strip.height for strip in strips)
    sheet = Image.new("RGB", (WIDTH, height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    tags, classes = len(store.tag_names), store.hierarchy.num_classes
    kinds = _number(tags, "tag") if tags else _number(classes, "class")
    _write(draw, _MARGIN, _TITLE_TEXT, store.name, f"{_number(len(store), 'image')}, {kinds}")
    top = _MARGIN + _TITLE
    for strip in strips:
        if strip.heading:
            _write(draw, top + 4, _LARGE, *strip.heading)
            top += _HEADING
        _write(draw, top, _TEXT, *strip.caption)
        _paste(sheet, top + _LINE, store, strip.rows)
        top += _LINE + _HEIGHT + 3 * _GAP
    return sheet


def _is_sheet(path: Path) -> bool:
    try:
        with Image.open(path, formats=("PNG",)) as image:
            return image.info.get(_MARK[0]) == _MARK[1]
    except (OSError, SyntaxError, ValueError, UnidentifiedImageError):
        return False


def _class_strips(store: Store) -> Iterator[_Strip]:
    hierarchy = store.hierarchy
    counts = np.bincount(store.classes, minlength=hierarchy.num_classes)
    coarsest = hierarchy.paths[:, 0]
    groups = [np.arange(hierarchy.num_classes)]
    if hierarchy.num_levels > 1:
        groups = [
            np.flatnonzero(coarsest == label) for label in _spread(hierarchy.sizes[0], _GROUPS)
        ]
    for group in groups:
        heading: tuple[str, str] | None = None
        if hierarchy.num_levels > 1:
            heading = store.label_path(int(group[0]))[0], _number(len(group), "class")
        for number in _spread(len(group), _STRIPS // len(groups)):
            label = int(group[number])
            *above, name = store.label_path(label)[1:] or store.label_path(label)
            words = [_number(counts[label], "image"), *([" > ".join(above)] if above else [])]
            yield _Strip(heading, (name, ", ".join(words)), _some(store.classes == label))
            heading = None


def _tag_strips(store: Store) -> Iterator[_Strip]:
    """From the most to the least frequent tag."""
    counts = store.tags.sum(axis=0)
    order = np.argsort(-counts, kind="stable")
    for rank in _spread(len(order), _STRIPS):
        tag = int(order[rank])
        caption = store.tag_names[tag], _number(counts[tag], "image")
        yield _Strip(None, caption, _some(store.tags[:, tag]))


def _number(count: int, what: str) -> str:
    plural = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{count} {what if count == 1 else plural}"


def _some(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    rows = np.flatnonzero(mask)
    return rows[_spread(len(rows), _IMAGES)]


def _spread(count: int, most: int) -> NDArray[np.int64]:
    """At most so many of the numbers below `count`, evenly spaced."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)


def _paste(sheet: Image.Image, top: int, store: Store, rows: NDArray[np.int64]) -> None:
    left = _MARGIN
    for row in rows:
        image = _thumbnail(store, int(row))
        if left + image.width <= WIDTH - _MARGIN:
            sheet.paste(image, (left, top))
            left += image.width + _GAP


def _thumbnail(store: Store, row: int) -> Image.Image:
    """As high as a strip, and cut if very wide."""
    with Image.open(io.BytesIO(store.encoded(row)), formats=FORMATS) as image:
        width = max(1, round(image.width * _HEIGHT / image.height))
        enlarged = image.height < _HEIGHT
        kind = Image.Resampling.NEAREST if enlarged else Image.Resampling.LANCZOS
        small = image.convert("RGB").resize((width, _HEIGHT), kind)
    return small.crop((0, 0, min(width, _LONGEST), _HEIGHT))


def _write(draw: ImageDraw.ImageDraw, top: int, size: int, text: str, more: str) -> None:
    """Writes a line: the text in black, the rest of what fits in grey."""
    left = float(_MARGIN)
    for part, colour in ((text, _INK), (more, _GREY)):
        words = _cut(part, size, WIDTH - _MARGIN - left)
        draw.text((left, top), words, fill=colour, font=_font(size))
        left += _font(size).getlength(words) + size


def _cut(text: str, size: int, room: float) -> str:
    """What fits, in letters that the font has: accents go, other writing becomes `?`."""
    plain = unicodedata.normalize("NFKD", " ".join(text.split()))
    kept = "".join(letter for letter in plain if not unicodedata.combining(letter))
    shown = "".join(letter if " " <= letter <= "~" else "?" for letter in kept)
    if _font(size).getlength(shown) <= room:
        return shown
    while shown and _font(size).getlength(f"{shown}...") > room:
        shown = shown[:-1]
    return f"{shown}..." if shown else ""


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own, so that every machine draws the same; it has the letters of ASCII."""
    return ImageFont.load_default(size)
