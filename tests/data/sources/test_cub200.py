import pytest

from hsearch.data.library import open_data, prepare
from tests.data.miniature import Fault, Miniature, save_images, write_lines

CLASSES = ("001.Black_footed_Albatross", "100.Brown_Pelican", "101.White_Pelican", "200.Wren")
IMAGES = [f"{name}/{name[4:]}_{i:04d}_{i}.jpg" for name in CLASSES for i in range(3)]


def build(root):
    top = root / "CUB_200_2011"
    write_lines(top / "classes.txt", *(f"{int(name[:3])} {name}" for name in CLASSES))
    write_lines(top / "images.txt", *(f"{i} {name}" for i, name in enumerate(IMAGES, start=1)))
    numbers = (f"{i} {int(name[:3])}" for i, name in enumerate(IMAGES, start=1))
    write_lines(top / "image_class_labels.txt", *numbers)
    save_images(top / "images", *IMAGES)


MINIATURES = (
    Miniature(
        name="cub200",
        build=build,
        images=12,
        classes=4,
        needed=(
            "CUB_200_2011/images.txt",
            "CUB_200_2011/image_class_labels.txt",
            "CUB_200_2011/classes.txt",
        ),
        texts=(
            "CUB_200_2011/images.txt",
            "CUB_200_2011/image_class_labels.txt",
            "CUB_200_2011/classes.txt",
        ),
        listed=f"CUB_200_2011/images/{IMAGES[0]}",
        unlisted=f"CUB_200_2011/images/{CLASSES[0]}/other.jpg",
        faults=(
            Fault("CUB_200_2011/image_class_labels.txt", "4 100\n", "4 77\n", "image 4 .* has 77"),
            Fault("CUB_200_2011/image_class_labels.txt", "4 100\n", "", "image 4 .* has none"),
            Fault("CUB_200_2011/images.txt", "3 ", "", "Line 3 of .* must have 2 columns"),
        ),
    ),
)


@pytest.mark.usefixtures("data_home")
def test_the_first_hundred_classes_are_trained_on(tmp_path):
    build(tmp_path)
    prepare("cub200", tmp_path)
    store = open_data("cub200")
    assert store.hierarchy.level_names == ("species",)
    assert store.hierarchy.names[0] == (
        "Black footed Albatross",
        "Brown Pelican",
        "White Pelican",
        "Wren",
    )
    assert store.split.tolist() == ["train"] * 6 + ["test"] * 6
