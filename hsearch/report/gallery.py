"""The retrieval gallery: queries with what they found, framed in three colours."""

from matplotlib.figure import Figure

from hsearch.data.decoding import decode
from hsearch.report.looking import Look
from hsearch.report.retrieval import Found, choose_queries, find_neighbors
from hsearch.report.tiles import NEAR, QUERY, RIGHT, WRONG, Grid, Sheet, thumbnail
from hsearch.seeds import rng_for

NEIGHBORS = 8
GRID = Grid(tile=104)

_WORDS = {
    "best": "Best queries: all or most of what they find first is right",
    "worst": "Worst queries",
    "random": "Queries chosen at random",
}


def frame_colour(shared: int, num_levels: int) -> str:
    """Returns the colour for a neighbour that shares so many levels with the query."""
    if shared == num_levels:
        return RIGHT
    return NEAR if shared > 0 else WRONG


def draw_gallery(look: Look) -> Figure:
    """Draws the best, the worst and some random queries with their nearest images."""
    embedded = look.after.embedded
    found = find_neighbors(embedded, NEIGHBORS)
    classes = embedded.labels[found.queries, -1]
    num_levels = len(look.levels)
    chosen = choose_queries(found, classes, num_levels, rng_for(look.job.seed, "gallery"))
    groups = {kind: queries for kind, queries in chosen.items() if len(queries)}
    count = sum(map(len, groups.values()))
    sheet = Sheet(GRID, count, found.neighbors.shape[1] + 1, len(groups))
    sheet.title(f"{look.title}: what queries find")
    sheet.explain(_explained(look.levels))
    row = 0
    for number, (kind, queries) in enumerate(groups.items()):
        sheet.heading(row, number, _WORDS[kind])
        for query in queries:
            _draw_row(sheet, look, found, int(query), row, number + 1)
            row += 1
    return sheet.figure()


def _draw_row(sheet: Sheet, look: Look, found: Found, query: int, row: int, headings: int) -> None:
    num_levels = len(look.levels)
    images = [int(found.queries[query]), *found.neighbors[query].tolist()]
    colours = [QUERY] + [frame_colour(int(s), num_levels) for s in found.shared[query]]
    for column, (image, colour) in enumerate(zip(images, colours, strict=True)):
        store_row = int(look.rows[image])
        inside = thumbnail(decode(look.store.encoded(store_row)), GRID.inner)
        name = look.names(num_levels - 1)[int(look.after.embedded.labels[image, -1])]
        caption = (name, look.store.ids[store_row].rpartition("/")[2])
        sheet.put((row, column, headings), inside, colour, caption)


def _explained(levels: tuple[str, ...]) -> list[tuple[str, str]]:
    explained = [(QUERY, "query"), (RIGHT, f"right: same {levels[-1]}")]
    if len(levels) > 1:
        explained.append((NEAR, f"same {levels[0]}, other {levels[-1]}"))
    return [*explained, (WRONG, "wrong")]
