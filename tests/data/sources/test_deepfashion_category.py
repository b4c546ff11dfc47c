from collections import Counter

import pytest

from hsearch.data.library import open_data, prepare
from hsearch.data.records import SEEN
from hsearch.data.sources.deepfashion_category import TRAINED, UNSEEN
from tests.data.miniature import Fault, Miniature, save_images, write_lines

VIEWS = ("1_front", "2_side", "3_back")
# Gender, category, product, variations, part.
PRODUCTS = [
    ("MEN", "Pants", 3, ("01", "02"), "train"),
    ("WOMEN", "Pants", 4, ("02",), "train"),
    ("WOMEN", "Tees_Tanks", 7, ("01",), "test"),
    ("WOMEN", "Denim", 5, ("04",), "train"),
    ("MEN", "Denim", 6, ("01", "03"), "test"),
]
TOP = "In-shop Clothes Retrieval Benchmark"
PARTITION = f"{TOP}/Eval/list_eval_partition.txt"
HEADER = "image_name item_id evaluation_status"


def lines(products):
    """Of a tested variation the first image queries the others."""
    for gender, category, product, variations, part in products:
        for variation in variations:
            for view in VIEWS:
                role = {"1_front": "query"}.get(view, "gallery") if part == "test" else part
                item = f"id_{product:08d}"
                path = f"img/{gender}/{category}/{item}/{variation}_{view}.jpg"
                yield f"{path} {item} {role}"


def build(root, products=PRODUCTS):
    listed = list(lines(products))
    write_lines(root / PARTITION, str(len(listed)), HEADER, *listed)
    save_images(root / TOP / "Img", *(line.split()[0] for line in listed))


IMAGE = "img/WOMEN/Pants/id_00000004/02_1_front.jpg"
MINIATURES = (
    Miniature(
        name="deepfashion-category",
        build=build,
        images=21,
        classes=7,
        needed=(PARTITION, f"{TOP}/Img/img"),
        texts=(PARTITION,),
        listed=f"{TOP}/Img/{IMAGE}",
        unlisted=f"{TOP}/Img/img/WOMEN/Pants/id_00000004/other.jpg",
        faults=(
            Fault(PARTITION, IMAGE, IMAGE.replace("Pants", "Hats"), "17 categories.*has .*Hats"),
            Fault(PARTITION, IMAGE, "img/WOMEN/Pants/1.jpg", "17 categories.*has .*Pants/1.jpg"),
            Fault(PARTITION, IMAGE, IMAGE.replace("02_1_front", "front"), "17 categories.*/front"),
            Fault(PARTITION, f"{IMAGE} id_00000004 train", IMAGE, "Line .* must have 3 columns"),
            Fault(PARTITION, f"{IMAGE} id_00000004", f"{IMAGE} id_4x", "Line 9 of .* id_4x"),
            Fault(PARTITION, f"{IMAGE} id_00000004 train", f"{IMAGE} id_00000004 val", "Line 9"),
        ),
    ),
)


@pytest.mark.usefixtures("data_home")
def test_seen_categories_are_trained_on_and_held_out_and_unseen_ones_tested(tmp_path):
    build(tmp_path)
    report = prepare("deepfashion-category", tmp_path)
    store = open_data("deepfashion-category")
    assert store.hierarchy.level_names == ("category", "product", "variation")
    assert store.hierarchy.sizes == (3, 5, 7)
    found = Counter(
        (
            "/".join(store.label_path(store.classes[row])),
            str(store.split[row]),
            bool(store.is_query[row]),
            bool(store.is_gallery[row]),
        )
        for row in range(len(store))
    )
    assert found == {
        ("Pants/id_00000003/01", "train", True, True): 3,
        ("Pants/id_00000003/02", "train", True, True): 3,
        ("Pants/id_00000004/02", "train", True, True): 3,
        ("Tees_Tanks/id_00000007/01", SEEN, True, False): 1,
        ("Tees_Tanks/id_00000007/01", SEEN, False, True): 2,
        ("Denim/id_00000005/04", "test", False, False): 3,
        ("Denim/id_00000006/01", "test", True, False): 1,
        ("Denim/id_00000006/01", "test", False, True): 2,
        ("Denim/id_00000006/03", "test", True, False): 1,
        ("Denim/id_00000006/03", "test", False, True): 2,
    }
    (note,) = report.notes
    assert "does not name its seen categories" in note


@pytest.mark.usefixtures("data_home")
def test_products_of_several_categories_are_left_out(tmp_path):
    build(tmp_path, [*PRODUCTS, ("WOMEN", "Shorts", 4, ("02",), "train")])
    report = prepare("deepfashion-category", tmp_path)
    assert report.images == 21 - 3
    assert "id_00000004" not in open_data("deepfashion-category").hierarchy.names[1]
    assert "left out 1 products that lie in several categories" in report.notes


def test_the_categories_are_those_of_the_folders():
    # 14 folders of WOMEN and 9 of MEN have 17 names: the official code's number of classes.
    assert len({*UNSEEN, *TRAINED}) == 17
    assert (*UNSEEN, *TRAINED) == tuple(sorted((*UNSEEN, *TRAINED)))
