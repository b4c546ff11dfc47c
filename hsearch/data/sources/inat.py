"""iNaturalist 2018: 8,142 species by super-category or by their whole taxonomy.

`inat-base` has two levels, `inat-full` seven; 5,690 species are for training and 2,452 for the
test. Reads Inaturalist_train_set1.txt and Inaturalist_test_set1.txt, the lists of the retrieval
benchmark, whose lines are `train_val2018/SUPER-CATEGORY/NUMBER/IMAGE.jpg`, the images in
train_val2018/, and the species of categories.json, or else of train2018.json, where their names are
obfuscated.

References:
    Brown et al., Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval, ECCV 2020,
    arXiv:2007.12163, https://github.com/Andrew-Brown1/Smooth_AP (the lists,
    "Inat_dataset_splits").
"""

from pathlib import Path

from hsearch.data.layout import Found, Layout
from hsearch.data.records import Note, Record
from hsearch.data.text_files import is_number, read_json, read_json_list, read_lines
from hsearch.errors import DatasetError

HOME = "https://github.com/visipedia/inat_comp/tree/master/2018"
TOTAL = 325_846 + 136_093
LISTS_HOME = "https://github.com/Andrew-Brown1/Smooth_AP"
RANKS = ("kingdom", "phylum", "class", "order", "family", "genus")
VARIANTS = {
    "inat-base": {"levels": ("super-category", "species")},
    "inat-full": {"levels": (*RANKS, "species")},
}


def records(layout: Layout, levels: tuple[str, ...]) -> Found:
    """Yields the images in the order of the lists; classes are sorted by their number.

    Args:
        layout: The files.
        levels: Whose labels the images get: `RANKS` or the super-category above the species.
    """
    lists = [f"Inaturalist_{part}_set1.txt" for part in ("train", "test")]
    lists = [f"{name}|Inat_dataset_splits/{name}" for name in lists]
    named = layout.find("categories.json")
    train, test, images, *unnamed = layout.require(
        *(*lists, "train_val2018", *([] if named else ["categories.json|train2018.json"])),
        inside="Inat_dataset_splits.zip, categories.json.tar.gz and train_val2018.tar.gz",
        homes=dict.fromkeys(lists, LISTS_HOME),
    )
    species = named or unnamed[0]
    ranks = tuple(level for level in levels if level in RANKS)
    taxa = _taxa(species, ranks)
    if species.name != "categories.json":
        yield Note("species have obfuscated names, as there is no categories.json")
    first: dict[tuple[str, ...], tuple[int, str]] = {}
    for split, path in (("train", train), ("test", test)):
        for line, (image,) in read_lines(path, columns=1):
            where = f"line {line} of {path}"
            above, number = _folders(image, where)
            if number not in taxa:
                raise DatasetError(
                    f"Every image needs a species of {species}, but {where} has number {number}."
                )
            labels = taxa[number] if ranks else (above, *taxa[number])
            if first.setdefault(labels, (number, split)) != (number, split):
                raise DatasetError(
                    f"Every species must have one number and be in one list, but {where} is "
                    f"'{'/'.join(labels)}' with number {number}, which is number "
                    f"{first[labels][0]} of the {first[labels][1]} list; get the official files."
                )
            yield Record(image, images.parent / image, labels, split, order=number)


def _folders(image: str, where: str) -> tuple[str, int]:
    """Returns the super-category and the number of the species."""
    _, above, number, _ = parts if len(parts := image.split("/")) == 4 else ("",) * 4
    if not is_number(number):
        raise DatasetError(
            "Images must be listed as train_val2018/SUPER-CATEGORY/NUMBER/IMAGE.jpg, but "
            f"{where} is '{image}'."
        )
    return above, int(number)


def _taxa(path: Path, ranks: tuple[str, ...]) -> dict[int, tuple[str, ...]]:
    """Returns the names of every species from the highest of `ranks` on, by number."""
    is_list = path.name == "categories.json"
    entries = read_json_list(path) if is_list else read_json(path).get("categories")
    if not isinstance(entries, list):
        raise DatasetError(f"The file {path} must hold a list 'categories', but holds none.")
    taxa: dict[int, tuple[str, ...]] = {}
    keys = (*ranks, "name")
    for place, entry in enumerate(entries, start=1):
        given = entry if isinstance(entry, dict) else {}
        names = tuple(name for key in keys if isinstance(name := given.get(key), str))
        if not isinstance(given.get("id"), int) or len(names) != len(keys):
            raise DatasetError(
                f"Every category of {path} needs the number 'id' and the texts {', '.join(keys)}, "
                f"but number {place} of the list has not all of them."
            )
        taxa[given["id"]] = names
    return taxa
