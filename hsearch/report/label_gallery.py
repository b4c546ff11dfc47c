"""The gallery of labels: what one label of an image finds, and what two of them find together."""

from matplotlib.figure import Figure

from hsearch.data.decoding import decode
from hsearch.report.label_looking import LabelLook
from hsearch.report.label_search import (
    FoundByTwo,
    Pairs,
    choose_two_labels,
    find_by_two,
    find_pairs,
)
from hsearch.report.retrieval import Found, choose_queries
from hsearch.report.tiles import NEAR, QUERY, RIGHT, WRONG, Grid, Sheet, thumbnail
from hsearch.seeds import rng_for

NEIGHBORS = 6
GRID = Grid(tile=110, lines=3)
COLOURS = (WRONG, NEAR, RIGHT)
"""Of frames, by what is shared."""

_WORDS = {
    "best": "Best queries by one label: what they find first has it too",
    "worst": "Worst queries by one label",
    "random": "Queries by one label, chosen at random",
}
_ONE = (
    (QUERY, "query"),
    (RIGHT, "found by the same label"),
    (NEAR, "has it, found by another label"),
    (WRONG, "does not have it"),
)
_TWO = ((QUERY, "query"), (RIGHT, "has both labels"), (NEAR, "has one of them"))
_HEADINGS_OF_TWO = 2


def draw_label_gallery(look: LabelLook) -> Figure:
    """Draws pairs of an image and a label with the images that they find, best match first.

    By one label: the best, the worst and some random pairs. An image is found by its nearest
    embedding, whose label is written below: right is the query's label; amber are images that have
    it although their embedding of another label is nearer.

    By two labels: random images with two of their labels as one vector. There are embeddings only
    of labels that images have, so candidates are the images with at least one of both, and the
    missing one counts as a cosine of 0. Right is who has both.
    """
    embedded = look.after
    pairs, rng = Pairs.of(embedded), rng_for(look.job.seed, "label gallery")
    found = find_pairs(pairs, embedded.labels_of_first, NEIGHBORS, rng)
    chosen = choose_queries(found, pairs.labels[found.queries], 2, rng)
    groups = {kind: queries for kind, queries in chosen.items() if len(queries)}
    by_two = [
        find_by_two(pairs, image, labels, NEIGHBORS)
        for image, labels in choose_two_labels(embedded.labels_of_first, rng)
    ]
    count = sum(map(len, groups.values()))
    headings = len(groups) + (_HEADINGS_OF_TWO if by_two else 0)
    sheet = Sheet(GRID, count + len(by_two), NEIGHBORS + 1, headings)
    sheet.title(f"{look.title}: what images find by their labels")
    sheet.explain(_ONE)
    row = 0
    for number, (kind, queries) in enumerate(groups.items()):
        sheet.heading(row, number, _WORDS[kind])
        for query in queries:
            _draw_pair(sheet, look, pairs, found, int(query), (row, 0, number + 1))
            row += 1
    if by_two:
        _draw_twos(sheet, look, by_two, row, len(groups))
    return sheet.figure()


def _draw_pair(
    sheet: Sheet,
    look: LabelLook,
    pairs: Pairs,
    found: Found,
    query: int,
    spot: tuple[int, int, int],
) -> None:
    shown = [(int(found.queries[query]), QUERY)]
    for pair, shared in zip(found.neighbors[query], found.shared[query], strict=True):
        if pair >= 0:
            shown.append((int(pair), COLOURS[shared]))
    for column, (pair, colour) in enumerate(shown):
        name = look.names[pairs.labels[pair]]
        _put(sheet, look, int(pairs.images[pair]), (spot[0], column, spot[2]), colour, [name])


def _draw_twos(
    sheet: Sheet, look: LabelLook, by_two: list[FoundByTwo], row: int, headings: int
) -> None:
    sheet.heading(row, headings, "Queries by two labels of an image, chosen at random")
    sheet.explain_below(row, headings + 1, _TWO)
    headings += _HEADINGS_OF_TWO
    for found in by_two:
        shown = [(found.image, QUERY)]
        shown += [(i, COLOURS[s]) for i, s in zip(found.neighbors, found.shared, strict=True)]
        for column, (image, colour) in enumerate(shown):
            names = [look.names[label] for label in found.labels if look.after.labels[image, label]]
            _put(sheet, look, image, (row, column, headings), colour, names)
        row += 1


def _put(
    sheet: Sheet,
    look: LabelLook,
    image: int,
    spot: tuple[int, int, int],
    colour: str,
    names: list[str],
) -> None:
    inside = thumbnail(decode(look.store.encoded(int(look.rows[image]))), GRID.inner)
    sheet.put(spot, inside, colour, (*names, look.short_id(image)))
