"""Places on a plane."""

import importlib.util

import numpy as np
import pytest
import torch

from hsearch.geometry import exp_map_zero
from hsearch.report.layout import lay_out

HAS_TSNE = importlib.util.find_spec("openTSNE") is not None


def groups(rng, *, per_group=20, dim=8):
    """Three groups of unit vectors far from each other, and their centres."""
    centres = np.linalg.qr(rng.normal(size=(dim, 3)))[0].T
    points = np.repeat(centres, per_group, axis=0) + rng.normal(0, 0.05, (3 * per_group, dim))
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    return unit.astype(np.float32), centres.astype(np.float32)


def test_without_tsne_the_places_are_principal_components(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    images, centres = groups(np.random.default_rng(0))
    found = lay_out(images, centres)
    assert "principal components" in found.how
    assert "hsearch[maps]" in found.how
    centred = images.astype(float) - images.mean(axis=0, dtype=float)
    vectors = np.linalg.eigh(centred.T @ centred)[1]
    projected = np.abs(centred @ vectors[:, ::-1][:, :2])
    assert np.abs(found.images) == pytest.approx(projected, abs=1e-6)
    shift = np.abs((centres - images.mean(axis=0, dtype=float)) @ vectors[:, ::-1][:, :2])
    assert np.abs(found.proxies) == pytest.approx(shift, abs=1e-6)


@pytest.mark.skipif(not HAS_TSNE, reason="needs the extra `maps`")
@pytest.mark.parametrize("geometry", ["sphere", "poincare"])
def test_groups_stay_apart_and_proxies_stand_in_theirs(geometry):
    images, centres = groups(np.random.default_rng(0))
    if geometry == "poincare":
        images, centres = (
            exp_map_zero(torch.from_numpy(x), 0.1).numpy() for x in (images, centres)
        )
    found = lay_out(images, centres, geometry=geometry, curvature=0.1)
    assert ("Poincare" in found.how) == (geometry == "poincare")
    distances = np.linalg.norm(found.images[:, None] - found.images[None], axis=2)
    nearest = np.argsort(distances, axis=1)[:, 1:6]
    assert (nearest // 20 == np.arange(60)[:, None] // 20).all()
    to_proxies = np.linalg.norm(found.images[:, None] - found.proxies[None], axis=2)
    assert (to_proxies.argmin(axis=1) == np.arange(60) // 20).all()
    again = lay_out(images, centres, geometry=geometry, curvature=0.1)
    assert np.array_equal(again.images, found.images)


def test_few_images_are_laid_out_by_components():
    images, centres = groups(np.random.default_rng(0), per_group=2)
    found = lay_out(images, centres[:0])
    assert found.images.shape == (6, 2)
    assert found.proxies.shape == (0, 2)
    assert found.how == "principal components of unit vectors"
