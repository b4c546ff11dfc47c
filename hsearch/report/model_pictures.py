"""The pictures of a trained network, from its run folder to files."""

import re
from pathlib import Path

from hsearch.data.progress import Progress, silent
from hsearch.evaluation.scoring import ScoreOptions, score
from hsearch.report.canvas import save
from hsearch.report.confusion import draw_confusion
from hsearch.report.gallery import draw_gallery
from hsearch.report.label_looking import look_at_labels
from hsearch.report.label_pictures import write_label_pictures
from hsearch.report.levels import draw_levels
from hsearch.report.looking import Look, LookPart, look_at
from hsearch.report.maps import choose_images, draw_map, map_network
from hsearch.report.tree import draw_tree, has_tree
from hsearch.report.violations import draw_violations
from hsearch.training.folder import read_job
from hsearch.training.setup import open_job_store


def write_model_pictures(
    run: Path, folder: Path, part: LookPart = "validation", progress: Progress = silent
) -> list[Path]:
    """Writes gallery, metrics, violations, confusion and a map per level as PNG files.

    Of images with several labels it writes what `write_label_pictures` does.

    Args:
        run: A folder that `hsearch train` or a search has written.
        folder: Made where it does not exist; files of the same names are replaced.
        part: Whose classes are shown: those of the fold's `validation`, or of the `test`.
        progress: Told what goes on, how much of it is done, and of how much.

    Returns:
        The files that were written. Data with one level have no violations and no confusion, and
        only a method that learns who is above whom has a tree.
    """
    if open_job_store(read_job(run)).tag_names:
        return write_label_pictures(look_at_labels(run, part, progress), folder, progress)
    look = look_at(run, part, progress)
    progress("scoring", 0, 2)
    before = score(look.before.embedded, ScoreOptions())
    progress("scoring", 1, 2)
    after = score(look.after.embedded, ScoreOptions())
    progress("scoring", 2, 2)
    written = [
        save(draw_gallery(look), folder / "gallery.png"),
        save(draw_levels(look.title, look.levels, before, after), folder / "levels.png"),
    ]
    if len(look.levels) > 1:
        written.append(save(draw_violations(look, before, after), folder / "violations.png"))
        written.append(save(draw_confusion(look), folder / "confusion.png"))
    if has_tree(look):
        written.append(save(draw_tree(look), folder / "tree.png"))
    return written + _write_maps(look, folder, progress)


def _write_maps(look: Look, folder: Path, progress: Progress) -> list[Path]:
    steps = 2 + len(look.levels)
    progress("mapping", 0, steps)
    images = choose_images(look)
    before = map_network(look, look.before, images)
    progress("mapping", 1, steps)
    after = map_network(look, look.after, images)
    written = []
    for level, name in enumerate(look.levels):
        progress("mapping", 2 + level, steps)
        plain = re.sub(r"[^\w-]+", "-", name)
        figure = draw_map(look, images, (before, after), level)
        written.append(save(figure, folder / f"map-{plain}.png"))
    progress("mapping", steps, steps)
    return written
