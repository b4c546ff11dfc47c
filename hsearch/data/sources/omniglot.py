"""Omniglot: 50 alphabets > 1,623 handwritten characters, 20 drawers each; or its small sets.

Reads images_background.zip and images_evaluation.zip, or their folders: ALPHABET/characterNN/*.png.
The 30 background alphabets are for training, the 20 of the evaluation set are the test. In place of
the background set there may be the two small ones, which are parts of it and share alphabets with
each other. Without the evaluation set there is no split: the second half of characters is the test.
"""

from hsearch.data.layout import Found, Layout
from hsearch.data.records import Record

HOME = "https://github.com/brendenlake/omniglot"
LEVEL_NAMES = ("alphabet", "character")
BACKGROUND = "images_background"
SMALL = ("images_background_small1", "images_background_small2")
EVALUATION = "images_evaluation"


def records(layout: Layout) -> Found:
    """Yields the drawings sorted by their path, each once."""
    layout.require("|".join((BACKGROUND, *SMALL)), inside=f"{BACKGROUND}.zip")
    evaluation = layout.find(EVALUATION)
    whole = layout.find(BACKGROUND)
    background = [whole] if whole else [layout.find(name) for name in SMALL]
    parts = [("train" if evaluation else "", folder) for folder in background]
    seen = set()
    for split, folder in [*parts, ("test", evaluation)]:
        for image in sorted(folder.glob("*/*/*.png")) if folder else ():
            alphabet, character, name = image.parts[-3:]
            drawing = f"{alphabet}/{character}/{name}"
            if drawing not in seen:
                seen.add(drawing)
                yield Record(drawing, image, (alphabet, character), split)
