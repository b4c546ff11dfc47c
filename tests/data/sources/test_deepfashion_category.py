from collections import Counter

import pytest

from hsearch.data.library import open_data, prepare
from hsearch.data.records import SEEN
from hsearch.data.sources.deepfashion_category import TRAINED, UNSEEN
from hsearch.data.splits import store_splits
from tests.data.miniature import Fault, Miniature, save_images, write_lines

VIEWS = ("1_front", "2_side", "3_back")
# Gender, category, product, variations, whether it is for training: one of each category, and more.
TRAIN = [("WOMEN", name, i, ("02",), True) for i, name in enumerate((*UNSEEN, *TRAINED), start=1)]
PRODUCTS = [
    *TRAIN,
    ("MEN", "Pants", 18, ("01", "02"), True),
    ("WOMEN", "Tees_Tanks", 20, ("01",), False),
    ("MEN", "Denim", 21, ("01", "03"), False),
]
TOP = "In-shop Clothes Retrieval Benchmark"
PARTITION = f"{TOP}/Eval/list_eval_partition.txt"
HEADER = "image_name item_id evaluation_status"


def lines(products):
    """Of a tested variation the first image queries the others."""
    for gender, category, product, variations, train in products:
        for variation in variations:
            for view in VIEWS:
                part = "train" if train else "query" if view == VIEWS[0] else "gallery"
                item = f"id_{product:08d}"
                path = f"img/{gender}/{category}/{item}/{variation}_{view}.jpg"
                yield f"{path} {item} {part}"


def build(root, products=PRODUCTS):
    listed = list(lines(products))
    write_lines(root / PARTITION, str(len(listed)), HEADER, *listed)
    save_images(root / TOP / "Img", *(line.split()[0] for line in listed))


IMAGE = "img/WOMEN/Pants/id_00000009/02_1_front.jpg"
LINE = f"{IMAGE} id_00000009 train"


def miniature(name, images, classes):
    return Miniature(
        name=name,
        build=build,
        images=images,
        classes=classes,
        needed=(PARTITION, f"{TOP}/Img/img"),
        texts=(PARTITION,),
        listed=f"{TOP}/Img/{IMAGE}",
        unlisted=f"{TOP}/Img/img/WOMEN/Pants/id_00000009/other.jpg",
        faults=(
            Fault(PARTITION, IMAGE, IMAGE.replace("Pants", "Hats"), "17 categories.*has .*Hats"),
            Fault(PARTITION, IMAGE, "img/WOMEN/Pants/02_1_front.jpg", "Pants/02_1_front.jpg"),
            Fault(PARTITION, IMAGE, IMAGE.replace("02_1_", ""), "17 categories.*has .*/front.jpg"),
            Fault(PARTITION, LINE, IMAGE, "Line 27 of .* must have 3 columns"),
            Fault(PARTITION, LINE, f"{IMAGE} id_9x train", "Line 27 of .* id_9x"),
            Fault(PARTITION, LINE, f"{IMAGE} id_00000009 val", "Line 27 of .* val"),
        ),
    )


MINIATURES = (
    miniature("deepfashion-category", 17 * 3 + 6 + 6, 17 + 2 + 2),
    miniature("deepfashion-category-flat", 17 * 3 + 6 + 3 + 6, 17),
)


def marks(store, category):
    """Of the images of a category: labels, split, whether they query and whether they are found."""
    return Counter(
        (
            "/".join(store.label_path(store.classes[row])[1:]),
            str(store.split[row]),
            bool(store.is_query[row]),
            bool(store.is_gallery[row]),
        )
        for row in range(len(store))
        if store.label_path(store.classes[row])[0] == category
    )


@pytest.mark.usefixtures("data_home")
def test_products_of_unseen_categories_are_tested(tmp_path):
    build(tmp_path)
    report = prepare("deepfashion-category", tmp_path)
    store = open_data("deepfashion-category")
    assert store.hierarchy.level_names == ("category", "product", "variation")
    assert store.hierarchy.sizes == (17, 19, 21)
    assert marks(store, "Pants") == {
        ("id_00000009/02", "train", True, True): 3,
        ("id_00000018/01", "train", True, True): 3,
        ("id_00000018/02", "train", True, True): 3,
    }
    assert marks(store, "Tees_Tanks") == {("id_00000017/02", "train", True, True): 3}
    assert marks(store, "Denim") == {
        ("id_00000003/02", "test", False, False): 3,
        ("id_00000021/01", "test", True, False): 1,
        ("id_00000021/01", "test", False, True): 2,
        ("id_00000021/03", "test", True, False): 1,
        ("id_00000021/03", "test", False, True): 2,
    }
    assert len(store_splits(store).trainval) == 9 + 2
    left_out, unnamed = report.notes
    assert left_out == "left out 3 images of test products of the categories trained on"
    assert "does not name its seen categories" in unnamed


@pytest.mark.usefixtures("data_home")
def test_without_products_images_of_seen_categories_are_held_out(tmp_path):
    build(tmp_path)
    prepare("deepfashion-category-flat", tmp_path)
    store = open_data("deepfashion-category-flat")
    assert store.hierarchy.level_names == ("category",)
    assert store.hierarchy.names == ((*UNSEEN, *TRAINED),)
    assert marks(store, "Pants") == {("", "train", True, True): 9}
    assert marks(store, "Tees_Tanks") == {
        ("", "train", True, True): 3,
        ("", SEEN, True, False): 1,
        ("", SEEN, False, True): 2,
    }
    assert marks(store, "Denim") == {
        ("", "test", False, True): 3 + 4,
        ("", "test", True, False): 2,
    }
    assert len(store_splits(store).trainval) == 9


@pytest.mark.usefixtures("data_home")
@pytest.mark.parametrize("mini", MINIATURES, ids=lambda mini: mini.name)
def test_products_of_several_categories_are_left_out(mini, tmp_path):
    build(tmp_path, [*PRODUCTS, ("WOMEN", "Shorts", 18, ("02",), True)])
    report = prepare(mini.name, tmp_path)
    assert report.images == mini.images - 6
    assert not any("id_00000018" in name for name in open_data(mini.name).ids)
    assert "left out 1 products that lie in several categories" in report.notes


def test_the_categories_are_those_of_the_folders():
    # 14 folders of WOMEN and 9 of MEN have 17 names: the official code's number of classes.
    assert len({*UNSEEN, *TRAINED}) == 17
    assert (*UNSEEN, *TRAINED) == tuple(sorted((*UNSEEN, *TRAINED)))
