import pytest

from hsearch.data.library import open_data, prepare
from hsearch.errors import DatasetError
from tests.data.miniature import Fault, Miniature, save_images, write_lines

TOP = "Stanford_Online_Products"
HEADER = "image_id class_id super_class_id path"
TRAIN = {1: "bicycle", 2: "bicycle", 11318: "toaster"}
TEST = {11319: "bicycle", 22634: "toaster"}
NUMBER = {"bicycle": 1, "toaster": 12}


def build(root):
    image = 0
    for name, products in (("Ebay_train.txt", TRAIN), ("Ebay_test.txt", TEST)):
        lines = []
        for product, category in products.items():
            for view in range(3):
                image += 1
                path = f"{category}_final/{110000000000 + product}_{view}.JPG"
                lines.append(f"{image} {product} {NUMBER[category]} {path}")
                save_images(root / TOP, path, width=16 + image)
        write_lines(root / TOP / name, HEADER, *lines)


MINIATURES = (
    Miniature(
        name="sop",
        build=build,
        images=15,
        classes=5,
        needed=(
            f"{TOP}/Ebay_train.txt",
            f"{TOP}/Ebay_test.txt",
            f"{TOP}/bicycle_final",
            f"{TOP}/toaster_final",
        ),
        texts=(f"{TOP}/Ebay_train.txt", f"{TOP}/Ebay_test.txt"),
        listed=f"{TOP}/bicycle_final/110000000001_0.JPG",
        unlisted=f"{TOP}/bicycle_final/1_0.JPG",
        faults=(
            Fault(f"{TOP}/Ebay_train.txt", HEADER + "\n", "", "Line 1 of .* must be 'image_id"),
            Fault(
                f"{TOP}/Ebay_test.txt", "class_id", "class", "Line 1 .* is 'image_id class super"
            ),
            Fault(f"{TOP}/Ebay_train.txt", "4 2 1 ", "4 two 1 ", "class_id of line 5 .* is 'two'"),
            Fault(f"{TOP}/Ebay_test.txt", "10 11319 1 ", "", "Line 2 of .* must have 4 columns"),
            Fault(f"{TOP}/Ebay_train.txt", "4 2 1 ", "4 2 x ", "super_class_id of line 5 .* 'x'"),
            Fault(f"{TOP}/Ebay_train.txt", "4 2 1 ", f"4 {'9' * 5000} 1 ", "must be a number"),
            Fault(
                f"{TOP}/Ebay_test.txt",
                "10 11319 1 ",
                "10 11319 12 ",
                "12 is toaster, and line 2 of .* has it for bicycle",
            ),
            Fault(
                f"{TOP}/Ebay_test.txt",
                "10 11319 1 ",
                "10 2 1 ",
                r"product 2 of line 2 of .* \(bicycle\) is in the train list as bicycle",
            ),
            Fault(
                f"{TOP}/Ebay_train.txt",
                "7 11318 12 ",
                "7 2 12 ",
                r"product 2 of line 8 of .* \(toaster\) is in the train list as bicycle",
            ),
        ),
    ),
)


@pytest.mark.usefixtures("data_home")
def test_categories_products_and_the_published_split(tmp_path):
    build(tmp_path)
    prepare("sop", tmp_path)
    store = open_data("sop")
    assert store.hierarchy.level_names == ("category", "product")
    paths = [store.label_path(label) for label in range(5)]
    assert paths == [(name, str(product)) for product, name in (TRAIN | TEST).items()]
    assert store.split.tolist() == ["train"] * 9 + ["test"] * 6
    assert max(TRAIN) + 11316 == max(TEST) == 22634


@pytest.mark.usefixtures("data_home")
def test_an_empty_list_has_no_header(tmp_path):
    build(tmp_path)
    (tmp_path / TOP / "Ebay_test.txt").write_bytes(b"")
    with pytest.raises(DatasetError, match=r"Line 1 of .* but is ''"):
        prepare("sop", tmp_path)


@pytest.mark.usefixtures("data_home")
def test_a_product_with_one_image_is_kept_as_published(tmp_path):
    build(tmp_path)
    path = tmp_path / "Stanford_Online_Products" / "Ebay_train.txt"
    first, header = path.read_text().splitlines()[1], path.read_text().splitlines()[0]
    product = first.split()[1]
    lines = [line for line in path.read_text().splitlines()[1:] if line.split()[1] != product]
    path.write_text("\n".join([header, first, *lines, ""]))
    report = prepare("sop", tmp_path)
    assert len(report.singles) == 1
    assert report.singles[0].endswith(f"/{product}")
    assert not report.problems
    assert report.classes == MINIATURES[0].classes
