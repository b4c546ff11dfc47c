"""What a network says about images with several labels, by one process and by several."""

from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from hsearch.data.pixels import Pixels
from hsearch.data.transforms import normalise
from hsearch.evaluation.label_scoring import LabelEmbedded, score_labels
from hsearch.spec import FoldJob
from hsearch.training.embedding import embed_labels
from hsearch.training.setup import build_step, load_fold
from hsearch.training.validation import validate
from tests.training.ranks import on_ranks

FIRST = ("hsearch.training.embedding.FIRST_IMAGES", "hsearch.evaluation.label_scoring.FIRST_IMAGES")


def seen(job: FoldJob, count: int, progress: Any = None) -> LabelEmbedded:
    """What the untrained network says about the first validation images."""
    data = load_fold(job)
    step = build_step(job, data.hierarchy, torch.device("cpu"))
    rows = data.validation_rows[:count]
    labels = np.asarray(data.validation_labels[:count], dtype=np.bool_)
    names = data.hierarchy.names[-1]
    return embed_labels(step, data.inputs, rows, labels, names, job.training.image, progress)


def seen_values(job_values: Any, count: int, first: int) -> dict[str, torch.Tensor]:
    """The same as tensors, where only the first images have their embeddings kept."""
    with mock.patch(FIRST[0], first), mock.patch(FIRST[1], first):
        found = seen(FoldJob.from_dict(job_values), count)
        pairs = {"images": found.pairs[0], "labels": found.pairs[1]}
    values = {"scores": found.scores, **pairs}
    if found.embeddings is not None:
        values["embeddings"] = found.embeddings
    return {key: torch.as_tensor(value) for key, value in values.items()}


CASES = {
    "images and labels of odd numbers": ("mulcon", 29, 1000),
    "kept are those of the first rank": ("mulcon", 29, 7),
    "kept are some of the second rank too": ("mulcon", 29, 14),
    "a rank without an image": ("mulcon", 2, 1000),
    "one embedding per image": ("bce", 29, 1000),
}


def all_cases(jobs: dict[str, Any]) -> dict[str, dict[str, torch.Tensor]]:
    return {
        case: seen_values(jobs[method], count, first)
        for case, (method, count, first) in CASES.items()
    }


def test_three_ranks_equal_one(toy_job):
    jobs = {method: toy_job(method).to_dict() for method in ("mulcon", "bce")}
    one, three = all_cases(jobs), on_ranks(all_cases, jobs, size=3)
    for case, (method, _, _) in CASES.items():
        assert ("embeddings" in one[case]) == (method == "mulcon")
        assert one[case].keys() == three[case].keys()
        for key, expected in one[case].items():
            found = three[case][key]
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, msg=f"{case}: {key}")


def test_embeddings_are_those_of_the_labels_that_images_have_in_their_order(toy_job):
    job = toy_job("mulcon")
    found = seen(job, 1000)
    data = load_fold(job)
    step = build_step(job, data.hierarchy, torch.device("cpu")).eval()
    labels = np.asarray(data.validation_labels)
    assert found.scores.shape == labels.shape == (30, 6)
    assert found.embeddings is not None
    assert len(found.embeddings) == labels.sum() == len(found.pairs[0])
    assert found.label_names == tuple(f"label-{number}" for number in range(6))
    assert isinstance(data.inputs, Pixels)
    pixels = torch.stack([data.inputs[int(row)] for row in data.validation_rows])
    with torch.inference_mode():
        every = step.embed(normalise(pixels, job.training.image))
        assert found.scores == pytest.approx(step.scores(every).numpy(), abs=1e-4)
    for vector, image, label in zip(found.embeddings, *found.pairs, strict=True):
        assert labels[image, label]
        assert vector == pytest.approx(every[image, label].numpy(), abs=1e-4)


def test_only_embeddings_of_the_first_images_are_kept_but_all_scores(toy_job, monkeypatch):
    whole = seen(toy_job("mulcon"), 1000)
    scored = score_labels(whole)
    for place in FIRST:
        monkeypatch.setattr(place, 5)
    first = seen(toy_job("mulcon"), 1000)
    assert np.array_equal(first.scores, whole.scores)
    assert first.embeddings is not None
    assert whole.embeddings is not None
    assert len(first.embeddings) == whole.labels[:5].sum() == len(first.pairs[0])
    assert np.array_equal(first.embeddings, whole.embeddings[: len(first.embeddings)])
    assert score_labels(first)["map"] == scored["map"]
    assert score_labels(first)["label_precision_at_3"] != scored["label_precision_at_3"]


def test_one_embedding_per_image_is_not_kept(toy_job):
    found = seen(toy_job("bce"), 1000)
    assert found.embeddings is None
    assert not [name for name in score_labels(found) if name.startswith("label_")]


def test_progress_counts_images(toy_job):
    told = []
    seen(toy_job("mulcon"), 20, lambda done, total: told.append((done, total)))
    assert told[-1] == (20, 20)


@pytest.mark.parametrize("method", ["mulcon", "bce"])
def test_a_fold_is_validated_by_the_metrics_of_labels(toy_job, method):
    job = toy_job(method)
    data = load_fold(job)
    step = build_step(job, data.hierarchy, torch.device("cpu"))
    assert validate(step, data, job.training.image) == score_labels(seen(job, 1000))
