"""NUS-WIDE: 81 concepts, several in an image of Flickr.

Reads Concepts81.txt, ImageList/TrainImagelist.txt and TestImagelist.txt, for every concept
Groundtruth/TrainTestLabels/Labels_CONCEPT_Train.txt and _Test.txt (a line with 0 or 1 per image)
and the images in Flickr/. Images without any concept are left out, as usual: of 161,789 + 107,859
remain 125,449 + 83,898.
"""

from pathlib import Path

from hsearch.data.layout import Found, Layout
from hsearch.data.records import Note, Record
from hsearch.data.text_files import read_lines
from hsearch.errors import DatasetError

HOME = "https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html"
TOTAL = 125_449 + 83_898
VARIANTS: dict[str, dict[str, object]] = {"nus-wide": {}}
CONCEPTS = 81
ARCHIVES = "ImageList.zip, Groundtruth.zip, ConceptsList.zip and the folder of images"


def records(layout: Layout) -> Found:
    """Yields the images in the order of the two lists."""
    concept_list, train, test, flickr, _ = layout.require(
        "Concepts81.txt|ConceptsList/Concepts81.txt",
        "TrainImagelist.txt|ImageList/TrainImagelist.txt",
        "TestImagelist.txt|ImageList/TestImagelist.txt",
        "Flickr",
        "TrainTestLabels|Groundtruth/TrainTestLabels",
        inside=ARCHIVES,
    )
    concepts = [concept for _, (concept,) in read_lines(concept_list, columns=1)]
    if len(concepts) != CONCEPTS or len(set(concepts)) != CONCEPTS:
        raise DatasetError(
            f"The file {concept_list} must have {CONCEPTS} different concepts, but has "
            f"{len(set(concepts))} in {len(concepts)} lines; get it from its official home again."
        )
    for listed, part in ((train, "Train"), (test, "Test")):
        names = [name.replace("\\", "/") for _, (name,) in read_lines(listed, columns=1)]
        tags = _tags(layout, listed, len(names), concepts, part)
        for name, own in zip(names, tags, strict=True):
            if own:
                split = part.lower()
                yield Record(name, flickr / name, labels=(), split=split, tags=tuple(own))
        empty = tuple(flickr / name for name, own in zip(names, tags, strict=True) if not own)
        if empty:
            yield Note(f"left out {len(empty)} images without concepts of {listed.name}", empty)


def _tags(
    layout: Layout, listed: Path, images: int, concepts: list[str], part: str
) -> list[list[str]]:
    """Returns the concepts of each image of a list."""
    files = (f"TrainTestLabels/Labels_{concept}_{part}.txt" for concept in concepts)
    paths = layout.require(*(f"{file}|Groundtruth/{file}" for file in files), inside=ARCHIVES)
    tags: list[list[str]] = [[] for _ in range(images)]
    for concept, path in zip(concepts, paths, strict=True):
        marks = list(read_lines(path, columns=1))
        if len(marks) != images:
            raise DatasetError(
                f"{path} must have a line for each of the {images} images of {listed}, but has "
                f"{len(marks)}; get both from their official home again."
            )
        for own, (line, (mark,)) in zip(tags, marks, strict=True):
            if mark not in ("0", "1"):
                raise DatasetError(
                    f"Every line of {path} must be 0 or 1, but line {line} is '{mark}'; get the "
                    "file from its official home again."
                )
            if mark == "1":
                own.append(concept)
    return tags
