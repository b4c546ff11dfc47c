"""Maps: whose edges are drawn, in which colours, and how many images."""

from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from hsearch.report import maps
from hsearch.report.canvas import MANY, OTHERS, label_colours
from hsearch.report.maps import choose_images, draw_map, map_network
from hsearch.training.folder import RunFolder
from hsearch.training.score import job_network


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Components serve as well as t-SNE for what is tested here."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


@pytest.mark.parametrize("method", ["hpl", "hier"])
def test_edges_are_the_parents_of_the_method(looked, trained, method):
    look = looked(method)
    images = choose_images(look)
    mapped = map_network(look, look.after, images)
    own = job_network(look.job, look.store, RunFolder(trained(method)).best).method.proxy_view()
    assert own is not None
    expected = [[i, p] for i, p in enumerate(own.parents.tolist()) if p >= 0]
    assert mapped.edges.tolist() == expected
    assert len(expected) >= len(look.train_classes)
    figure: Any = draw_map(look, images, (map_network(look, look.before, images), mapped), 0)
    lines = figure.axes[1].collections[1].get_segments()
    for line, edge in zip(lines, mapped.edges, strict=True):
        assert np.array_equal(line, mapped.proxies[edge])


@pytest.mark.parametrize("level", [0, 1, 2])
def test_images_have_the_colours_of_their_labels(looked, level):
    look = looked("hpl")
    images = choose_images(look)
    assert len(images) == len(look.rows)
    after = map_network(look, look.after, images)
    figure: Any = draw_map(look, images, (after, after), level)
    dots = figure.axes[1].collections[0]
    labels = look.after.embedded.labels[:, level]
    colours = label_colours(labels, look.names(level))
    inks = [colours[int(label)] for label in labels]
    by_place = dict(zip(map(tuple, after.images), inks, strict=True))
    for place, ink in zip(dots.get_offsets(), dots.get_facecolors(), strict=True):
        assert to_hex(ink) == by_place[tuple(place)]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend[: len(colours)] == sorted(look.names(level)[label] for label in colours)
    assert legend[len(colours) :] == ["proxy of a training class", "proxy above others"]


def test_labels_beyond_the_colours_are_the_rarest():
    labels = np.repeat(np.arange(25), np.arange(25) + 1)
    colours = label_colours(labels, [f"{number:02d}" for number in range(25)])
    assert list(colours) == list(range(5, 25))
    assert set(colours.values()) == set(MANY)
    assert OTHERS not in MANY


def test_large_data_and_many_proxies_are_sampled(looked, monkeypatch):
    look = looked("hpl")
    monkeypatch.setattr(maps, "MOST_IMAGES", 7)
    monkeypatch.setattr(maps, "MOST_PROXIES", 6)
    images = choose_images(look)
    assert len(set(images.tolist())) == 7
    assert np.array_equal(images, choose_images(look))
    mapped = map_network(look, look.after, images)
    assert mapped.images.shape == (7, 2)
    assert len(mapped.proxies) == 6
    assert (mapped.classes < 0).sum() == 4  # all coarse ones are kept
    assert (mapped.parents[mapped.classes >= 0] >= 0).all()


def test_a_method_without_proxies_has_a_map_too(looked):
    look = looked("supcon")
    images = choose_images(look)
    mapped = map_network(look, look.after, images)
    assert len(mapped.proxies) == 0
    figure: Any = draw_map(look, images, (mapped, mapped), 0)
    assert len(figure.axes[1].collections) == 1
