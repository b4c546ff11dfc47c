"""Frames and images of the gallery, pixel by pixel, against a search of its own."""

import numpy as np
import torch

from hsearch.data.decoding import decode
from hsearch.report.canvas import new_figure, save
from hsearch.report.gallery import GRID, NEIGHBORS, draw_gallery
from hsearch.report.retrieval import choose_queries, find_neighbors
from hsearch.report.tiles import FRAME, thumbnail
from hsearch.seeds import rng_for
from tests.report.conftest import pixels_of

COLOURS = {"right": (0, 114, 178), "near": (230, 159, 0), "wrong": (136, 34, 85)}


def test_frames_have_the_colours_of_what_was_found(looked, tmp_path):
    look = looked("hpl")
    sheet = pixels_of(save(draw_gallery(look), tmp_path / "gallery.png"))
    embedded = look.after.embedded
    cosines = embedded.embeddings @ embedded.embeddings.T
    np.fill_diagonal(cosines, -np.inf)
    found = find_neighbors(embedded, NEIGHBORS)
    classes = embedded.labels[:, -1]
    chosen = choose_queries(found, classes, 3, rng_for(look.job.seed, "gallery"))
    row, seen = 0, set()
    for number, queries in enumerate(filter(len, chosen.values()), start=1):
        for query in queries:
            nearest = np.argsort(-cosines[query], kind="stable")[:NEIGHBORS]
            for column, image in enumerate(nearest, start=1):
                own, other = embedded.labels[query], embedded.labels[image]
                same = "near" if own[0] == other[0] else "wrong"
                kind = "right" if own[-1] == other[-1] else same
                seen.add(kind)
                top, left = GRID.place(row, column, number)
                assert tuple(sheet[top + 1, left + 1]) == COLOURS[kind]
                assert tuple(sheet[top + GRID.tile - 2, left + GRID.tile - 2]) == COLOURS[kind]
                outside = sheet[top - 2, left - 2]
                assert outside.min() > 150
            row += 1
    assert len(seen) >= 2


def test_a_tile_shows_the_image_whole_and_sharp(looked, tmp_path):
    look = looked("hpl")
    sheet = pixels_of(save(draw_gallery(look), tmp_path / "gallery.png"))
    found = find_neighbors(look.after.embedded, NEIGHBORS)
    classes = look.after.embedded.labels[:, -1]
    chosen = choose_queries(found, classes, 3, rng_for(look.job.seed, "gallery"))
    image = decode(look.store.encoded(int(look.rows[found.queries[chosen["best"][0]]])))
    top, left = GRID.place(0, 0, 1)
    inner = sheet[top + FRAME : top + GRID.tile - FRAME, left + FRAME : left + GRID.tile - FRAME]
    middles = ((np.arange(16) + 0.5) * (GRID.tile - 2 * FRAME) / 16).astype(int)  # of its 16 pixels
    assert np.array_equal(inner[middles][:, middles], image.permute(1, 2, 0).numpy())


def test_a_wide_image_keeps_its_shape():
    tile = thumbnail(torch.zeros(3, 50, 200, dtype=torch.uint8), 40)
    dark = tile.max(axis=2) < 128
    assert dark.sum(axis=0).tolist() == [10] * 40
    assert np.flatnonzero(dark.any(axis=1)).tolist() == list(range(15, 25))


def test_names_with_dollars_are_shown_as_they_are(tmp_path):
    figure = new_figure(3, 2, "a_$_$ 01", "$x^{$")
    assert save(figure, tmp_path / "dollars.png").stat().st_size > 0
