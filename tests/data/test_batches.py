"""Batches: what a network is fed, in order, the same for the same seed."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hsearch.data.batches import TrainingBatches, evaluation_batches
from hsearch.data.pixels import open_pixels
from hsearch.data.transforms import eval_image, resize
from hsearch.errors import ConfigError
from hsearch.spec import BatchSpec, ImageSpec

IMAGE = ImageSpec(resize=16, crop=12)
RANDOM = IMAGE.model_copy(
    update={"color_jitter": (0.4, 0.4, 0.4, 0.1), "cutout": 0.5, "randaugment": (2, 9)}
)


@pytest.fixture
def pixels(toy_store, tmp_path):
    return open_pixels(toy_store, np.arange(len(toy_store)), 16, cache_folder=tmp_path)


def training_batches(store, pixels, views=1, seed=3, labels=None, image=IMAGE):
    rows = store.rows(np.arange(8))
    paths = torch.from_numpy(store.hierarchy.paths[store.classes[rows]])
    labels = paths if labels is None else labels
    batch = BatchSpec(size=16)
    return TrainingBatches(pixels, rows, paths.numpy(), labels, image, batch, seed, views)


def test_training_batches_have_images_and_the_labels_of_the_drawn_classes(toy_store, pixels):
    batches = list(training_batches(toy_store, pixels).epoch(1, 3))
    assert len(batches) == 3
    for batch in batches:
        assert batch.images.shape == (16, 3, 12, 12)
        assert batch.images.dtype == torch.uint8
        assert batch.labels.shape == (16, 3)
        _, counts = batch.labels[:, -1].unique(return_counts=True)
        assert set(counts.tolist()) == {4}


def test_views_show_the_same_images_differently_all_first_views_first(toy_store, pixels):
    (batch,) = training_batches(toy_store, pixels, views=2).epoch(1, 1)
    first, second = batch.images.chunk(2)
    assert torch.equal(*batch.labels.chunk(2))
    assert not torch.equal(first, second)
    # Two crops of one image are nearer to each other than to the crops of the other images.
    means = batch.images.float().mean(dim=(2, 3))
    distances = torch.cdist(means[:16], means[16:])
    assert (distances.diagonal() < distances.median()).float().mean() > 0.9


def test_views_differ_in_their_colors_where_that_is_asked_for(toy_store, pixels):
    plain = ImageSpec(resize=16, crop=12, scale=(1.0, 1.0), ratio=(1.0, 1.0), flip=0.0)
    gray = plain.model_copy(update={"color_jitter": (0.4, 0.4, 0.4, 0.1), "grayscale": 0.5})
    batches = training_batches(toy_store, pixels, views=2)
    (before,), (after,) = (replace(batches, image=image).epoch(1, 1) for image in (plain, gray))
    assert torch.equal(*before.images.chunk(2))
    assert not torch.equal(*after.images.chunk(2))
    assert torch.equal(before.labels, after.labels)


@pytest.mark.parametrize("change", [{"cutout": 0.5}, {"randaugment": (2, 20)}])
def test_views_differ_in_what_is_cut_out_and_changed(toy_store, pixels, change):
    plain = ImageSpec(resize=16, crop=12, scale=(1.0, 1.0), ratio=(1.0, 1.0), flip=0.0)
    changed = plain.model_copy(update=change)
    batches = training_batches(toy_store, pixels, views=2)
    (before,), (after,) = (replace(batches, image=image).epoch(1, 1) for image in (plain, changed))
    assert torch.equal(*before.images.chunk(2))
    assert not torch.equal(*after.images.chunk(2))
    assert after.images.dtype == torch.uint8
    assert after.images.shape == before.images.shape
    assert torch.equal(before.labels, after.labels)
    (again,) = replace(batches, image=plain).epoch(1, 1)
    assert torch.equal(again.images, before.images)  # the stored pixels are as they were


def test_cutout_moves_no_other_draw(toy_store, pixels):
    """All that is not painted over is as it was."""
    (before,) = training_batches(toy_store, pixels).epoch(1, 1)
    cut = IMAGE.model_copy(update={"cutout": 0.5})
    (after,) = training_batches(toy_store, pixels, image=cut).epoch(1, 1)
    same = (before.images == after.images).all(dim=1).float().mean(dim=(1, 2))
    assert (same >= 0.7).all()  # a square of half the side is a quarter of the image
    assert (same < 1).float().mean() > 0.9


def test_same_seed_same_batches_other_epoch_other_batches(toy_store, pixels):
    first, again, other = (
        torch.cat([b.images for b in training_batches(toy_store, pixels).epoch(epoch, 2)])
        for epoch in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("image", [IMAGE, RANDOM])
def test_ranks_prepare_parts_of_the_same_batch(toy_store, pixels, monkeypatch, image):
    (whole,) = training_batches(toy_store, pixels, views=2, image=image).epoch(1, 1)
    monkeypatch.setattr("hsearch.data.batches.world_size", lambda: 4)
    parts = []
    for rank in range(4):
        monkeypatch.setattr("hsearch.data.batches.rank", lambda rank=rank: rank)
        (batch,) = training_batches(toy_store, pixels, views=2, image=image).epoch(1, 1)
        assert torch.equal(batch.labels, whole.labels)
        parts.append(batch.images.reshape(2, 4, 3, 12, 12))
    assert torch.equal(torch.cat(parts, dim=1).flatten(0, 1), whole.images)


@pytest.mark.parametrize("image", [IMAGE, RANDOM])
def test_an_epoch_can_go_on_in_its_midst(toy_store, pixels, image):
    epoch = training_batches(toy_store, pixels, views=2, image=image).epoch(2, 5)
    whole, rest = list(epoch), list(epoch.after(1).after(2))
    assert len(rest) == 2
    for expected, batch in zip(whole[3:], rest, strict=True):
        assert torch.equal(batch.images, expected.images)
        assert torch.equal(batch.labels, expected.labels)


def test_an_epoch_of_the_sampler_has_its_own_length(toy_store, pixels):
    epoch = training_batches(toy_store, pixels).epoch(1, None)
    assert len(epoch) == len(list(epoch)) == 8 * 6 // 16


def test_multi_hot_labels_pass_through(toy_store, pixels):
    rows = toy_store.rows(np.arange(8))
    multi_hot = torch.from_numpy(np.eye(8, dtype=np.int64)[toy_store.classes[rows]])
    multi_hot[:, 0] = 1
    (batch,) = training_batches(toy_store, pixels, labels=multi_hot).epoch(1, 1)
    assert batch.labels.shape == (16, 8)
    assert batch.labels[:, 0].all()
    _, counts = batch.labels[:, 1:].argmax(dim=1).unique(return_counts=True)
    assert (counts % 4 == 0).all()


def test_batch_larger_than_the_data_is_refused(toy_store, pixels):
    rows = toy_store.rows([0, 1])
    labels = torch.zeros(len(rows), 1, dtype=torch.long)
    with pytest.raises(ConfigError, match="must not exceed the 12 training images"):
        TrainingBatches(pixels, rows, labels.numpy(), labels, IMAGE, BatchSpec(size=16), seed=0)


def test_evaluation_batches_keep_the_order_of_the_rows(toy_store, pixels):
    rows = np.arange(len(toy_store))[::-1].copy()
    images = torch.cat(list(evaluation_batches(pixels, rows, IMAGE, batch_size=10)))
    assert len(images) == len(rows)
    for place in (0, 9, 10, len(rows) - 1):
        assert torch.equal(images[place], eval_image(pixels[int(rows[place])], 12))


def test_whole_images_are_evaluated_squeezed_where_that_is_asked_for():
    wide = torch.arange(3 * 12 * 24, dtype=torch.int64).remainder(256).byte().reshape(3, 12, 24)
    image = ImageSpec(resize=12, crop=12, evaluated="squeezed")
    rows = np.zeros(1, dtype=np.int64)
    (squeezed,), (centre,) = (
        next(evaluation_batches([wide], rows, spec))  # type: ignore[arg-type]
        for spec in (image, image.model_copy(update={"evaluated": "centre"}))
    )
    assert torch.equal(squeezed, resize(wide, 12, 12))
    assert torch.equal(centre, wide[:, :, 6:18])


def test_an_unreadable_image_ends_the_epoch_instead_of_hanging(toy_store, pixels):
    class Broken:
        def sizes(self, rows):
            return pixels.sizes(rows)

        def __getitem__(self, row):
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="disk is gone"):
        list(training_batches(toy_store, Broken()).epoch(1, 2))
