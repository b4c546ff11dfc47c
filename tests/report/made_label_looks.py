"""Looks at multi-label data that were made, not trained."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from hsearch.data.records import Record
from hsearch.evaluation.label_scoring import LabelEmbedded
from hsearch.report.label_looking import AttendedImage, LabelLook
from hsearch.spec import FoldJob
from tests.data.toy import encode, photo, toy_store

Job = Callable[..., FoldJob]


def names_of(count):
    return tuple(f"tag-{t:03d}" for t in range(count))


def made_look(folder: Path, job: FoldJob, marks, *, names=None, **given) -> LabelLook:
    """A look at images with these (N, T) labels, which are their own numbers in the store.

    Scores before training are random, after it those of an image's own labels are higher;
    `given` replaces `scores`, `embeddings`, `label_vectors` or `attended`.
    """
    marks = np.asarray(marks, dtype=bool)
    rng = np.random.default_rng(0)
    names = names or names_of(marks.shape[1])
    path = folder / "tagged.arrow"
    records = [
        Record(
            f"folder/{i:03d}",
            encode(photo(i), "PNG"),
            (),
            tags=tuple(names[t] for t in np.flatnonzero(row)),
        )
        for i, row in enumerate(marks)
    ]
    store = toy_store(path, records)
    noise = rng.normal(size=(2, *marks.shape)).astype(np.float32)
    scores = given.pop("scores", (noise[1] + 2 * marks - 1).astype(np.float32))
    embeddings = given.pop("embeddings", None)
    before = LabelEmbedded(noise[0], marks, names, embeddings)
    after = LabelEmbedded(scores, marks, names, embeddings)
    rows = np.arange(len(store))
    job = job.model_copy(update={"data": str(path)})
    return LabelLook(job, store, "validation", rows, before, after, **given)


def pair_vectors(marks, *, noise=0.1, seed=0):
    """(M, 16) embeddings that are near to those of the same label."""
    rng = np.random.default_rng(seed)
    labels = np.nonzero(marks)[1]
    centres = rng.normal(size=(np.shape(marks)[1], 16))
    return (centres[labels] + noise * rng.normal(size=(len(labels), 16))).astype(np.float32)


def attended_to(image, places, *, heads=1, size=20, side=5):
    """A grey image with all attention for label t at `places[t]`, or `places[t][h]` of head h."""
    weights = np.zeros((len(places), heads, side, side), dtype=np.float32)
    for label, place in enumerate(places):
        for head in range(heads):
            row, column = place[head] if isinstance(place, list) else place
            weights[label, head, row, column] = 1
    return AttendedImage(image, np.full((3, size, size), 128, dtype=np.uint8), weights)
