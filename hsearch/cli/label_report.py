"""What an evaluation found about images with several labels each, label by label."""

from collections.abc import Sequence

import numpy as np

from hsearch.cli.output import print_table
from hsearch.evaluation.label_scoring import FIRST_IMAGES, LabelEmbedded
from hsearch.evaluation.scoring import AnyEmbedded
from hsearch.words import plural

_SHOWN = 10
"""How many of the labels that are found best and worst are printed."""


def label_words(model: LabelEmbedded) -> str:
    """Returns in a line what is scored."""
    words = f"{plural(len(model.labels), 'image')}, {plural(len(model.label_names), 'label')}"
    absent = int((~model.labels.any(axis=0)).sum())
    if absent:
        words += f", of which no image has {absent}"
    if model.embeddings is not None:
        first = min(FIRST_IMAGES, len(model.labels))
        words += f"; retrieval by label among the first {plural(first, 'image')}"
    return words


def label_facts(models: Sequence[AnyEmbedded]) -> dict[str, dict[str, float | int | None]]:
    """Returns images and mean AP, precision and recall over the models, by label.

    AP and recall are null for a label that no image has.
    """
    labelled = [model for model in models if isinstance(model, LabelEmbedded)]
    found = [model.per_label() for model in labelled]
    columns = {
        "ap": np.mean([each.average_precision for each in found], axis=0),
        "precision": np.mean([each.everything.precision() for each in found], axis=0),
        "recall": np.mean([each.everything.recall() for each in found], axis=0),
    }
    images = labelled[0].labels.sum(axis=0)
    return {
        name: {
            "images": int(images[label]),
            **{
                key: float(column[label]) if np.isfinite(column[label]) else None
                for key, column in columns.items()
            },
        }
        for label, name in enumerate(labelled[0].label_names)
    }


def print_label_table(models: Sequence[AnyEmbedded]) -> None:
    """Prints the labels by their AP, best first; of very many only the best and the worst."""
    facts = label_facts(models)
    order = sorted(facts, key=lambda name: -(facts[name]["ap"] or 0.0))
    rows = [(name, *(_cell(value) for value in facts[name].values())) for name in order]
    left = len(rows) - 2 * _SHOWN
    if left > 0:
        rows = [*rows[:_SHOWN], (f"{left} more", "", "", "", ""), *rows[-_SHOWN:]]
    print_table(("label", "images", "AP", "precision", "recall"), rows, title="")


def _cell(value: float | int | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.4f}"
