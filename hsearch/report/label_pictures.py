"""The pictures of a network for multi-label data, as files."""

from pathlib import Path

from hsearch.data.progress import Progress, silent
from hsearch.report.attention import draw_attention
from hsearch.report.canvas import save
from hsearch.report.label_gallery import draw_label_gallery
from hsearch.report.label_looking import LabelLook
from hsearch.report.label_neighbors import draw_label_neighbors
from hsearch.report.label_scores import draw_label_scores


def write_label_pictures(look: LabelLook, folder: Path, progress: Progress = silent) -> list[Path]:
    """Writes attention, neighbours of labels, gallery and scores of labels as PNG files.

    Args:
        look: A run with its images.
        folder: Made where it does not exist; files of the same names are replaced.
        progress: Told what goes on, how much of it is done, and of how much.

    Returns:
        The files that were written. Only a method with attention has `attention.png`, one with a
        vector per label `label-neighbors.png`, one with an embedding per label `label-gallery.png`.
    """
    pictures = {"label-scores.png": draw_label_scores}
    if look.attended:
        pictures["attention.png"] = draw_attention
    if look.label_vectors is not None and len(look.names) > 1:
        pictures["label-neighbors.png"] = draw_label_neighbors
    if look.after.embeddings is not None and len(look.after.embeddings):
        pictures["label-gallery.png"] = draw_label_gallery
    written = []
    progress("drawing", 0, len(pictures))
    for number, (name, draw) in enumerate(pictures.items(), start=1):
        written.append(save(draw(look), folder / name))
        progress("drawing", number, len(pictures))
    return written
