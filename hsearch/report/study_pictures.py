"""The pictures of a study, from its record to files."""

from pathlib import Path

from hsearch.report.canvas import save
from hsearch.report.history import draw_history
from hsearch.report.knobs import draw_importances, draw_parallel, draw_slices
from hsearch.report.race import draw_race
from hsearch.search.importance import FEWEST_TRIALS, expected_scores, knob_importances
from hsearch.search.record import StudyRecord


def write_study_pictures(record: StudyRecord, folder: Path) -> list[Path]:
    """Writes history, race, knob importance, parallel coordinates and slices as PNG files.

    Where the study is too small for a picture there is none, and `undrawn` says why.

    Args:
        record: Of the study.
        folder: Made where it does not exist; files of the same names are replaced.

    Returns:
        The files that were written.
    """
    if not record.trials:
        return []
    pictures = {"history": draw_history(record), "race": draw_race(record)}
    if expected_scores(record):
        pictures |= {"parallel": draw_parallel(record), "slices": draw_slices(record)}
    if shares := knob_importances(record):
        pictures["importance"] = draw_importances(record, shares)
    return [save(figure, folder / f"{name}.png") for name, figure in pictures.items()]


def undrawn(record: StudyRecord) -> list[str]:
    """Returns a sentence for every picture that the study is too small for."""
    if not record.trials:
        return [f"The study {record.name} has no trial yet, so there is nothing to draw."]
    if not expected_scores(record):
        return ["No trial has finished all folds, so knobs cannot be drawn against scores yet."]
    if not knob_importances(record):
        return [
            f"The importance of a knob needs {FEWEST_TRIALS} trials that have it and were scored; "
            "search on for its picture."
        ]
    return []
