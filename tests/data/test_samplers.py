"""Samplers keep what they promise, and follow from seed and epoch alone."""

import re
import time
from typing import get_args

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hsearch.data.samplers import check_batches, draw_epoch
from hsearch.errors import ConfigError
from hsearch.seeds import rng_for
from hsearch.spec import BatchSpec

SAMPLERS = get_args(BatchSpec.model_fields["sampler"].annotation)
OWN_EPOCH_HAS_NO_IMAGE_TWICE = ("m_per_class_once", "shuffle")


def made_paths(seed, levels=None):
    """Label paths of 1 to 80 images in random order, of 1 to 4 levels, some classes with one."""
    rng = np.random.default_rng(seed)
    levels = levels or int(rng.integers(1, 5))
    rows: list[list[int]] = [[]]
    for _ in range(levels):
        children = [rng.integers(1, 4) for _ in rows]
        rows = [[*row, child] for row, n in zip(rows, children, strict=True) for child in range(n)]
    ids = np.array(rows)[:12]
    columns = [np.unique(ids[:, : i + 1], axis=0, return_inverse=True)[1] for i in range(levels)]
    classes = np.stack([column.ravel() for column in columns], axis=1)
    paths = np.repeat(classes, rng.integers(1, 8, len(classes)), axis=0)
    return rng.permutation(paths)


def shared_levels(one, other):
    return int(np.logical_and.accumulate(one == other, axis=-1).sum())


seeds = st.integers(0, 10_000)


@pytest.mark.parametrize("sampler", SAMPLERS)
@settings(max_examples=30)
@given(seed=seeds, per_class=st.integers(1, 3), groups=st.integers(1, 5), more=st.integers(1, 9))
def test_every_sampler_on_any_data(sampler, seed, per_class, groups, more):
    """Full batches, as many as asked for, the same again, and never an endless loop."""
    paths = made_paths(seed)
    batch = BatchSpec(size=2 * per_class * groups, sampler=sampler, per_class=per_class)
    try:
        check_batches(paths, batch)
    except ConfigError as error:
        assert batch.size > len(paths) or sampler == "m_per_class_once"
        if remedy := re.search(r"--set batch.size=(\d+)`", str(error)):
            check_batches(paths, BatchSpec(**{**dict(batch), "size": int(remedy[1])}))
        return
    own = draw_epoch(paths, batch, seed=seed, epoch=1)
    assert own.shape == (len(own), batch.size)
    assert len(own) > 0
    assert ((own >= 0) & (own < len(paths))).all()
    longer = draw_epoch(paths, batch, seed=seed, epoch=1, iterations=len(own) + more)
    assert longer.shape == (len(own) + more, batch.size)
    again = draw_epoch(paths, batch, seed=seed, epoch=1, iterations=len(own) + more)
    np.testing.assert_array_equal(longer, again)
    shorter = draw_epoch(paths, batch, seed=seed, epoch=1, iterations=1)
    assert shorter.shape == (1, batch.size)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_follows_from_seed_and_epoch(sampler):
    paths = np.repeat(np.stack([np.arange(10) // 5, np.arange(10)], axis=1), 8, axis=0)
    batch = BatchSpec(size=8, sampler=sampler)

    def draw(seed, epoch):
        return draw_epoch(paths, batch, seed=seed, epoch=epoch, iterations=5).tolist()

    assert draw(0, 1) == draw(0, 1)
    assert draw(0, 1) != draw(0, 2)
    assert draw(0, 1) != draw(1, 1)


@pytest.mark.parametrize("sampler", ["m_per_class", "unique_class"])
@settings(max_examples=40)
@given(seed=seeds, per_class=st.integers(1, 5), groups=st.integers(1, 8))
def test_different_classes_with_m_images_each(sampler, seed, per_class, groups):
    paths = made_paths(seed)
    assume(per_class * groups <= len(paths))
    classes, num_classes = paths[:, -1], len(np.unique(paths[:, -1]))
    batch = BatchSpec(size=per_class * groups, per_class=per_class, sampler=sampler)
    for chosen in draw_epoch(paths, batch, seed=seed, epoch=1, iterations=3):
        labels, counts = np.unique(classes[chosen], return_counts=True)
        assert len(labels) == min(groups, num_classes)
        if groups <= num_classes:
            assert set(counts) == {per_class}
        for label in labels if sampler == "m_per_class" else ():
            own = chosen[classes[chosen] == label]
            assert len(np.unique(own)) == min(len(own), (classes == label).sum())


@settings(max_examples=40)
@given(seed=seeds, per_class=st.integers(1, 5), groups=st.integers(1, 8))
def test_m_per_class_draws_what_it_always_drew_where_no_class_repeats(seed, per_class, groups):
    """Recorded results and resumed trainings depend on it."""
    paths = made_paths(seed)
    members = [np.flatnonzero(paths[:, -1] == label) for label in np.unique(paths[:, -1])]
    assume(groups <= len(members) and per_class * groups <= len(paths))
    rng = rng_for(seed, "sampler", 1)

    def distinct(population, count):
        rounds = -(-count // population)
        return np.concatenate([rng.permutation(population) for _ in range(rounds)])[:count]

    expected = [
        np.concatenate(
            [
                members[c][distinct(len(members[c]), per_class)]
                for c in distinct(len(members), groups)
            ]
        )
        for _ in range(3)
    ]
    batch = BatchSpec(size=per_class * groups, per_class=per_class)
    found = draw_epoch(paths, batch, seed=seed, epoch=1, iterations=3)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("sampler", ["m_per_class", "hierarchical", "hard"])
def test_a_class_that_comes_again_gives_other_images(sampler):
    paths = np.repeat(np.array([[0, 0], [1, 1]]), 8, axis=0)
    batch = BatchSpec(size=16, per_class=2, sampler=sampler)
    for row in draw_epoch(paths, batch, seed=0, epoch=1, iterations=5):
        assert sorted(row) == list(range(16))


def test_unique_class_draws_images_with_replacement():
    paths = np.repeat(np.arange(20), 3)[:, None]
    batch = BatchSpec(size=20, per_class=2, sampler="unique_class")
    order = draw_epoch(paths, batch, seed=0, epoch=1, iterations=300).reshape(300, 10, 2)
    assert (order[..., 0] == order[..., 1]).mean() == pytest.approx(1 / 3, abs=0.04)


def test_class_balanced_draws_classes_evenly():
    paths = np.repeat(np.arange(10), np.arange(1, 11))[:, None]
    batch = BatchSpec(size=50, sampler="class_balanced")
    order = draw_epoch(paths, batch, seed=0, epoch=1, iterations=200)
    shares = np.bincount(paths[order.ravel(), 0]) / order.size
    np.testing.assert_allclose(shares, 0.1, atol=0.02)


@pytest.mark.parametrize("sampler", OWN_EPOCH_HAS_NO_IMAGE_TWICE)
@settings(max_examples=40)
@given(seed=seeds, per_class=st.integers(1, 3), groups=st.integers(1, 4), epoch=st.integers(1, 9))
def test_no_image_twice_in_an_epoch_of_the_sampler(sampler, seed, per_class, groups, epoch):
    paths = made_paths(seed)
    batch = BatchSpec(size=per_class * groups, per_class=per_class, sampler=sampler)
    try:
        order = draw_epoch(paths, batch, seed=seed, epoch=epoch)
    except ConfigError:
        return
    assert len(np.unique(order)) == order.size
    longer = draw_epoch(paths, batch, seed=seed, epoch=epoch, iterations=len(order) + 1)
    np.testing.assert_array_equal(longer[: len(order)], order)
    if sampler == "shuffle":
        assert len(order) == len(paths) // batch.size


def slow_once(rng, members, per_class, groups):
    """The walk as METHODS tells it, batch by batch, with the draws of the fast one."""
    order = rng.permutation(len(members))
    unused = {int(c): rng.permutation(members[c]).tolist() for c in order}
    batches: list[list[int]] = []
    while True:
        able = [c for c in unused if len(unused[c]) >= per_class][:groups]
        if len(able) < groups:
            return batches
        batches.append([unused[c].pop(0) for c in able for _ in range(per_class)])


@settings(max_examples=60)
@given(seed=seeds, per_class=st.integers(1, 3), groups=st.integers(1, 4))
def test_once_walks_the_classes_from_their_start_for_every_batch(seed, per_class, groups):
    paths = made_paths(seed)
    batch = BatchSpec(size=per_class * groups, per_class=per_class, sampler="m_per_class_once")
    classes = np.unique(paths[:, -1])
    members = [np.flatnonzero(paths[:, -1] == c) for c in classes]
    try:
        fast = draw_epoch(paths, batch, seed=seed, epoch=1)
    except ConfigError:
        assert sum(len(own) >= per_class for own in members) < groups
        assert not slow_once(rng_for(seed, "sampler", 1), members, per_class, groups)
        return
    slow = slow_once(rng_for(seed, "sampler", 1), members, per_class, groups)
    assert sorted(sorted(row) for row in fast.tolist()) == sorted(sorted(row) for row in slow)


def test_once_refuses_what_cannot_fill_a_batch():
    paths = np.repeat(np.arange(9), [4, 4, 4, 1, 1, 1, 1, 1, 1])[:, None]
    batch = BatchSpec(size=16, sampler="m_per_class_once")
    with pytest.raises(ConfigError, match="needs 4 classes with at least 4 images each, but there"):
        draw_epoch(paths, batch, seed=0, epoch=1, iterations=3)


def test_hierarchical_has_every_pair_of_coarse_classes_equally_often():
    coarse = np.repeat(np.arange(4), [9, 3, 6, 12])  # of the classes
    classes = np.repeat(np.arange(30), np.resize([1, 2, 5, 8], 30))
    paths = np.stack([coarse[classes], classes], axis=1)
    batch = BatchSpec(size=12, per_class=2, sampler="hierarchical", batches_per_pair=3)
    order = draw_epoch(paths, batch, seed=0, epoch=1)
    pairs = [tuple(np.unique(paths[row, 0])) for row in order]
    assert len(order) == 6 * 3
    assert {pairs.count(pair) for pair in pairs} == {3}
    assert len(set(pairs)) == 6
    assert pairs != sorted(pairs)
    for row in order:
        halves, counts = np.unique(paths[row], axis=0, return_counts=True)
        assert (counts == 2).all()
        assert np.bincount(halves[:, 0]).max() == 3
        for label in halves[:, 1]:
            own = row[paths[row, 1] == label]
            assert len(np.unique(own)) == min(2, (classes == label).sum())
    part = draw_epoch(paths, batch, seed=0, epoch=1, iterations=6)
    assert len(part) == 6


@pytest.mark.parametrize("columns", [1, 2], ids=["one level", "one coarse class"])
def test_hierarchical_without_pairs_draws_m_per_class(columns):
    classes = np.repeat(np.arange(8), 5)
    paths = np.stack([np.zeros_like(classes), classes], axis=1)[:, -columns:]
    order = draw_epoch(paths, BatchSpec(size=16, sampler="hierarchical"), seed=0, epoch=1)
    assert len(order) == 40 // 16
    for row in order:
        assert set(np.bincount(classes[row])) <= {0, 4}


def test_hierarchical_refuses_an_epoch_of_too_many_pairs_but_draws_some():
    classes = np.repeat(np.arange(2000), 2)
    paths = np.stack([classes // 2, classes], axis=1)
    batch = BatchSpec(size=8, per_class=2, sampler="hierarchical")
    with pytest.raises(ConfigError, match="all pairs of 1000 coarsest classes would have 2497500"):
        draw_epoch(paths, batch, seed=0, epoch=1)
    order = draw_epoch(paths, batch, seed=0, epoch=1, iterations=200)
    pairs = [tuple(np.unique(paths[row, 0])) for row in order]
    assert all(len(pair) == 2 for pair in pairs)


@settings(max_examples=60)
@given(seed=seeds, size=st.integers(1, 30))
def test_every_group_has_a_relative_of_every_degree(seed, size):
    paths = made_paths(seed)
    assume(size <= len(paths))
    levels = paths.shape[1]
    batch = BatchSpec(size=size, sampler="hierarchical_groups")
    every = np.logical_and.accumulate(paths[:, None] == paths[None], axis=2).sum(axis=2)
    np.fill_diagonal(every, -1)
    for row in draw_epoch(paths, batch, seed=seed, epoch=1, iterations=4):
        for start in range(0, size, levels + 2):
            anchor, *others = row[start : start + levels + 2]
            for degree, other in zip(range(levels, -1, -1), others, strict=False):
                if (every[anchor] == degree).any():
                    assert every[anchor, other] == degree


@settings(max_examples=60)
@given(seed=seeds, size=st.integers(1, 30))
def test_groups_have_an_image_twice_only_where_all_of_its_degree_are_in_the_batch(seed, size):
    paths = made_paths(seed)
    assume(size <= len(paths))
    levels = paths.shape[1]
    batch = BatchSpec(size=size, sampler="hierarchical_groups")
    for row in draw_epoch(paths, batch, seed=seed, epoch=1, iterations=4).tolist():
        for place, image in enumerate(row):
            number, before = place % (levels + 2), row[:place]
            anchor = row[place - number]
            assert number == 0 or image != anchor
            if image in before:
                assert number > 0
                relatives = [
                    other
                    for other in range(len(paths))
                    if other != anchor
                    and shared_levels(paths[anchor], paths[other]) == levels + 1 - number
                ]
                assert set(relatives) <= set(before)


def test_no_image_comes_twice_in_a_batch_in_which_a_new_pass_begins():
    paths = np.arange(20)[:, None]  # every class has one image
    batch = BatchSpec(size=12, sampler="hierarchical_groups")
    for seed in range(20):
        for row in draw_epoch(paths, batch, seed=seed, epoch=1, iterations=3):
            assert len(np.unique(row)) == 12


def test_groups_prefer_images_that_were_not_seen():
    paths = np.repeat(np.stack([np.arange(30) // 15, np.arange(30) // 5, np.arange(30)], 1), 20, 0)
    batch = BatchSpec(size=50, sampler="hierarchical_groups")
    order = draw_epoch(paths, batch, seed=0, epoch=1)
    assert len(order) == 12
    assert len(np.unique(order)) > 0.97 * order.size
    assert len(np.unique(order[:6])) == order[:6].size


@settings(max_examples=40)
@given(seed=seeds, per_class=st.integers(1, 3), groups=st.integers(1, 6))
def test_hard_takes_the_nearest_classes(seed, per_class, groups):
    paths = made_paths(seed)
    assume(per_class * groups <= len(paths))
    classes = np.unique(paths, axis=0)
    batch = BatchSpec(size=per_class * groups, per_class=per_class, sampler="hard")
    for row in draw_epoch(paths, batch, seed=seed, epoch=1, iterations=3):
        chosen = np.unique(paths[row], axis=0)
        assert len(chosen) == min(groups, len(classes))
        left = [c for c in classes if not (chosen == c).all(axis=1).any()]

        def fits(first, chosen=chosen, left=left):
            near = min(shared_levels(first, c) for c in chosen)
            return all(shared_levels(first, c) <= near for c in left)

        assert any(fits(first) for first in chosen)


def test_hard_breaks_ties_at_random():
    paths = np.repeat(np.stack([np.arange(12) // 6, np.arange(12)], axis=1), 4, axis=0)
    order = draw_epoch(paths, BatchSpec(size=8, sampler="hard"), seed=0, epoch=1, iterations=60)
    assert len({tuple(np.unique(paths[row, 1])) for row in order}) > 20


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_an_epoch_of_a_large_data_set_is_drawn_in_seconds(sampler):
    rng = np.random.default_rng(0)
    classes = np.concatenate([np.repeat(np.arange(11_000), 2), rng.integers(11_000, size=38_000)])
    paths = np.stack([classes % 12, classes % 600, classes], axis=1)
    began = time.perf_counter()
    batch = BatchSpec(size=256, sampler=sampler)
    assert len(draw_epoch(paths, batch, seed=0, epoch=1, iterations=1000)) == 1000
    assert time.perf_counter() - began < 20  # measured: at most 1.6 s


@pytest.mark.parametrize(
    ("knobs", "remedy"),
    [
        ({"size": 64}, "but got 64; add `--set batch.size=56`."),
        ({"size": 64, "sampler": "hierarchical", "per_class": 8}, "add `--set batch.size=48`."),
        ({"size": 64, "sampler": "shuffle"}, "add `--set batch.size=57`."),
        ({"size": 64, "sampler": "unique_class", "per_class": 64}, "lower `batch.per_class`."),
        (
            {"size": 64, "sampler": "m_per_class_once"},
            "there are 2; add `--set batch.size=8` or `--set batch.sampler=m_per_class`.",
        ),
    ],
)
def test_a_batch_that_is_too_large_is_refused_with_a_size_that_fits(knobs, remedy):
    paths = np.repeat(np.arange(51), [4, 4, *[1] * 49])[:, None]
    with pytest.raises(ConfigError) as caught:
        check_batches(paths, BatchSpec(**knobs))
    assert str(caught.value).endswith(remedy)
