import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsearch.errors import DatasetError
from hsearch.hierarchy import Hierarchy
from tests import golden_files

CARS = [("bmw", "coupe"), ("audi", "coupe"), ("bmw", "van"), ("audi", "van"), ("bmw", "x5")]


@st.composite
def hierarchies(draw):
    """Random trees: every class draws its path among few names, and only new paths are kept."""
    depth = draw(st.integers(1, 4))
    path = st.tuples(*[st.sampled_from("abc")] * depth)
    return Hierarchy.from_names(draw(st.lists(path, min_size=1, max_size=12, unique=True)))


@st.composite
def hierarchies_with_classes(draw):
    hierarchy = draw(hierarchies())
    order = draw(st.permutations(range(hierarchy.num_classes)))
    return hierarchy, order[: draw(st.integers(1, len(order)))]


def name_path(hierarchy, label):
    return tuple(hierarchy.names[i][x] for i, x in enumerate(hierarchy.paths[label]))


def test_labels_are_numbered_by_first_appearance_and_stand_for_their_whole_path():
    hierarchy = Hierarchy.from_names(CARS, ("make", "model"))
    assert hierarchy.paths.tolist() == [[0, 0], [1, 1], [0, 2], [1, 3], [0, 4]]
    assert hierarchy.names == (("bmw", "audi"), ("coupe", "coupe", "van", "van", "x5"))
    assert hierarchy.level_names == ("make", "model")
    assert (hierarchy.num_classes, hierarchy.num_levels, hierarchy.sizes) == (5, 2, (2, 5))


def test_levels_without_names_are_counted():
    assert Hierarchy.from_names(CARS).level_names == ("level_0", "level_1")
    assert Hierarchy.from_names([("a",), ("b",)]).paths.tolist() == [[0], [1]]


def test_paths_cannot_be_changed():
    given_paths = np.array([[0, 0], [0, 1]])
    hierarchy = Hierarchy(given_paths, (("a",), ("b", "c")), ("x", "y"))
    with pytest.raises(ValueError, match="read-only"):
        hierarchy.paths[0, 0] = 1
    given_paths[0, 0] = 7
    assert hierarchy.paths.tolist() == [[0, 0], [0, 1]]


@given(hierarchies())
def test_names_round_trip(hierarchy):
    paths = [name_path(hierarchy, label) for label in range(hierarchy.num_classes)]
    again = Hierarchy.from_names(paths, hierarchy.level_names)
    assert np.array_equal(again.paths, hierarchy.paths)
    assert again.names == hierarchy.names


@pytest.mark.parametrize(
    ("paths", "sentence"),
    [
        ([], "at least one class"),
        ([()], r"depths \[0\] were given"),
        ([("a", "b"), ("c",)], r"depths \[1, 2\] were given"),
        ([("a", "b"), ("a", "b")], "given twice"),
    ],
)
def test_impossible_name_paths_end_in_a_sentence(paths, sentence):
    with pytest.raises(DatasetError, match=sentence):
        Hierarchy.from_names(paths)


@pytest.mark.parametrize(
    ("paths", "names", "sentence"),
    [
        ([[0, 0], [1, 0]], (("a", "b"), ("c",)), "last column"),
        ([[0, 0, 0], [1, 0, 1]], (("a", "b"), ("c",), ("d", "e")), "two parents"),
        ([[0, 0], [2, 1]], (("a", "b"), ("c", "d")), "level 0 must be 0..1"),
        ([[0, 0], [0, 1]], (("a",), ("b",)), "level 1 must be 0..0"),
        ([[0, 0]], (("a",),), "one entry per level"),
        ([0, 1], (("a", "b"),), "classes, levels"),
    ],
)
def test_inconsistent_hierarchies_are_rejected(paths, names, sentence):
    with pytest.raises(ValueError, match=sentence):
        Hierarchy(np.array(paths), names, ("x", "y", "z")[: len(names)])


def test_restrict_renumbers_every_level():
    part = Hierarchy.from_names(CARS).restrict([3, 0, 4])
    assert part.paths.tolist() == [[0, 0], [1, 1], [1, 2]]
    assert part.names == (("audi", "bmw"), ("van", "coupe", "x5"))


@given(hierarchies_with_classes())
def test_restrict_keeps_names_and_relations(case):
    hierarchy, classes = case
    part = hierarchy.restrict(classes)
    assert part.num_classes == len(classes)
    assert [name_path(part, i) for i in range(len(classes))] == [
        name_path(hierarchy, label) for label in classes
    ]
    ids = np.arange(len(classes))
    assert np.array_equal(part.shared_levels(ids, ids), hierarchy.shared_levels(classes, classes))


@given(hierarchies_with_classes(), st.data())
def test_restricting_twice_is_restricting_once(case, data):
    hierarchy, classes = case
    inner = data.draw(st.permutations(range(len(classes))))
    inner = inner[: data.draw(st.integers(1, len(inner)))]
    twice = hierarchy.restrict(classes).restrict(inner)
    once = hierarchy.restrict([classes[i] for i in inner])
    assert np.array_equal(twice.paths, once.paths)
    assert twice.names == once.names


@pytest.mark.parametrize("classes", [[], [0, 0], [5], [-1]])
def test_restrict_needs_distinct_known_classes(classes):
    with pytest.raises(ValueError, match=r"distinct and not empty|must lie in 0\.\.4"):
        Hierarchy.from_names(CARS).restrict(classes)


@given(hierarchies(), st.data())
def test_shared_levels_equal_the_common_prefix(hierarchy, data):
    some = st.lists(st.integers(0, hierarchy.num_classes - 1), max_size=6)
    queries, items = data.draw(some), data.draw(some)
    shared = hierarchy.shared_levels(queries, items)
    assert shared.shape == (len(queries), len(items))
    for q, query in enumerate(queries):
        for n, item in enumerate(items):
            left, right = name_path(hierarchy, query), name_path(hierarchy, item)
            prefix = [a == b for a, b in zip(left, right, strict=True)]
            assert shared[q, n] == (prefix.index(False) if False in prefix else len(prefix))


def pop_by_hand(shared, depth, alpha):
    return [(level / depth) ** alpha / shared.count(level) if level else 0.0 for level in shared]


def map_by_hand(shared, weights):
    return [
        sum(weights[p - 1] / sum(other >= p for other in shared) for p in range(1, level + 1))
        for level in shared
    ]


@given(hierarchies(), st.data())
def test_relevance_equals_brute_force(hierarchy, data):
    some = st.lists(st.integers(0, hierarchy.num_classes - 1), min_size=1, max_size=8)
    queries, items = data.draw(some), data.draw(some)
    alpha = data.draw(st.sampled_from([0.5, 1.0, 3.0]))
    depth = hierarchy.num_levels
    weights = data.draw(st.lists(st.floats(0, 1), min_size=depth, max_size=depth))
    shared = hierarchy.shared_levels(queries, items).tolist()
    np.testing.assert_allclose(
        hierarchy.relevance(queries, items, alpha=alpha),
        [pop_by_hand(row, depth, alpha) for row in shared],
    )
    for given_weights in (weights, None):
        np.testing.assert_allclose(
            hierarchy.relevance(queries, items, kind="map", weights=given_weights),
            [map_by_hand(row, given_weights or [1 / depth] * depth) for row in shared],
            atol=1e-15,
        )


def test_relevance_of_one_level_is_that_of_plain_retrieval():
    flat = Hierarchy.from_names([("a",), ("b",)])
    for kind in ("pop", "map"):
        relevance = flat.relevance([0], [0, 1, 0], kind=kind)
        assert relevance.tolist() == [[0.5, 0.0, 0.5]]


def test_wrong_arguments_of_relevance_are_rejected():
    hierarchy = Hierarchy.from_names(CARS)
    with pytest.raises(ValueError, match="must be 2 numbers"):
        hierarchy.relevance([0], [1], kind="map", weights=[1.0])
    with pytest.raises(ValueError, match=r"alpha.*> 0"):
        hierarchy.relevance([0], [1], alpha=0.0)
    with pytest.raises(ValueError, match="kind"):
        hierarchy.relevance([0], [1], kind="mpa")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", golden_files.names("hap_surrogate_L?"))
def test_golden_relevance(name):
    """The official code divides levels by L - 1, ours by L: one factor, to which H-AP is blind."""
    meta, arrays = golden_files.load(name)
    table, labels = arrays["class_table"], arrays["labels"]
    depth = table.shape[1]
    hierarchy = Hierarchy.from_names([tuple(map(str, path)) for path in table])
    classes = [table.tolist().index(path) for path in labels.tolist()]
    assert np.array_equal(hierarchy.shared_levels(classes, classes), arrays["pair_level"])
    alpha = meta["hyperparameters"]["alpha"]
    np.testing.assert_allclose(
        hierarchy.relevance(classes, classes, alpha=alpha) * (depth / (depth - 1)) ** alpha,
        arrays["relevances_float64"],
        rtol=1e-12,
    )
