import io
import tarfile
from itertools import pairwise

import numpy as np
import pytest

from hsearch.data.library import open_data, prepare
from hsearch.data.records import BadFilesError
from hsearch.errors import DatasetError
from tests.data.miniature import Fault, Miniature, save_images, write_lines

WORDS = {
    "n00001740": "entity",
    "n00001930": "physical entity",
    "n00002684": "object, physical object",
    "n00003553": "whole, unit",
    "n00004258": "living thing, animate thing",
    "n00004475": "organism, being",
    "n00015388": "animal, animate being, beast, brute, creature, fauna",
    "n01317541": "domestic animal, domesticated animal",
    "n01466257": "chordate",
    "n01471682": "vertebrate, craniate",
    "n01861778": "mammal, mammalian",
    "n02083346": "canine, canid",
    "n02084071": "dog, domestic dog, Canis familiaris",
    "n02085620": "Chihuahua",
    "n02114367": "timber wolf, grey wolf, gray wolf, Canis lupus",
    "n09287968": "geological formation, formation",
    "n09193705": "alp",
    "n01503061": "bird",
    "n02012849": "crane",
    "n00021939": "artifact, artefact",
    "n03575240": "instrumentality, instrumentation",
    "n03183080": "device",
    "n03126707": "crane",
}
CHAINS = (
    "n00001740 n00001930 n00002684 n00003553 n00004258 n00004475 n00015388 n01466257 n01471682",
    "n01471682 n01861778 n02083346 n02084071 n02085620",
    "n00015388 n01317541 n02084071",
    "n02083346 n02114367",
    "n01471682 n01503061 n02012849",
    "n00003553 n00021939 n03575240 n03183080 n03126707",
    "n00002684 n09287968 n09193705",
)
CLASSES = ("n02085620", "n02114367", "n02012849", "n03126707", "n09193705")
IMAGES = [f"{synset}/{synset}_{i}.JPEG" for synset in CLASSES for i in (2, 10, 33)]


def relations():
    chains = [chain.split() for chain in CHAINS]
    pairs = {pair for chain in chains for pair in pairwise(chain)}
    return [" ".join(pair) for pair in sorted(pairs, reverse=True)]


def build(root):
    write_lines(root / "wordnet.is_a.txt", *relations())
    write_lines(root / "words.txt", *(f"{synset}\t{words}" for synset, words in WORDS.items()))
    save_images(root / "train", *IMAGES)


def pack(root):
    """Puts the images into one tar file of tar files, as they are shipped."""
    with tarfile.open(root / "ILSVRC2012_img_train.tar", "w") as outer:
        for synset in CLASSES:
            buffer = io.BytesIO()
            with tarfile.open(fileobj=buffer, mode="w") as inner:
                for path in sorted((root / "train" / synset).iterdir()):
                    inner.add(path, path.name)
            entry = tarfile.TarInfo(f"{synset}.tar")
            entry.size = buffer.tell()
            buffer.seek(0)
            outer.addfile(entry, buffer)
    (root / "train").rename(root.parent / "plain")


MINIATURES = (
    Miniature(
        name="imagenet",
        build=build,
        images=15,
        classes=5,
        needed=("wordnet.is_a.txt", "train"),
        texts=("wordnet.is_a.txt", "words.txt"),
        listed=f"train/{IMAGES[0]}",
        faults=(
            Fault("wordnet.is_a.txt", "n02083346 n02114367", "n02083346", "must have 2 columns"),
            Fault("wordnet.is_a.txt", " n02114367", " wolf", "two synsets .* 'n02083346 wolf'"),
            Fault("wordnet.is_a.txt", " n02114367", " n02114367 x", "two synsets such as"),
            Fault("wordnet.is_a.txt", " n02114367", " n02114368", "but 'n02114367' is none"),
            Fault(
                "wordnet.is_a.txt",
                "n00001740 n00001930",
                "n00001740 n00001930\nn02114367 n00001740",
                "No synset of .* may be above itself, as in n.* > n.*",
            ),
            Fault("wordnet.is_a.txt", "n02083346 n02114367", "n02114367 n02114367", "above itself"),
            Fault("words.txt", "\tentity", "", "Line 1 of .*words.txt must have 2 columns"),
        ),
    ),
)


@pytest.mark.usefixtures("data_home")
def test_levels_of_wordnet(tmp_path):
    build(tmp_path)
    prepare("imagenet", tmp_path)
    store = open_data("imagenet")
    assert store.hierarchy.level_names == ("depth-4", "depth-6", "depth-9", "synset")
    living, animal = "living thing (n00004258)", "animal (n00015388)"
    mammal, alp = "mammal (n01861778)", "alp (n09193705)"
    crane = "crane (n03126707)"
    assert [store.label_path(label) for label in range(5)] == [
        (living, animal, "bird (n01503061)", "crane (n02012849)"),
        (living, animal, mammal, "Chihuahua (n02085620)"),  # a dog is a canine first
        (living, animal, mammal, "timber wolf (n02114367)"),
        ("artifact (n00021939)", "device (n03183080)", crane, crane),
        (alp, alp, alp, alp),
    ]
    assert set(store.split) == {""}
    assert store.is_query.all()
    assert store.is_gallery.all()


@pytest.mark.usefixtures("data_home")
def test_the_order_of_the_lines_does_not_matter(tmp_path):
    build(tmp_path)
    prepare("imagenet", tmp_path)
    before = open_data("imagenet").digest
    write_lines(tmp_path / "wordnet.is_a.txt", *sorted(relations()))
    prepare("imagenet", tmp_path, force=True)
    assert open_data("imagenet").digest == before


@pytest.mark.usefixtures("data_home")
def test_equally_long_paths_go_through_the_smallest_id(tmp_path):
    build(tmp_path)
    twins = ("n01471682 n01861779", "n01861779 n02083346", "n01471682 n01861777")
    write_lines(tmp_path / "wordnet.is_a.txt", *relations(), *twins, "n01861777 n02083346")
    prepare("imagenet", tmp_path)
    assert open_data("imagenet").label_path(1)[2] == "n01861777"


@pytest.mark.usefixtures("data_home")
def test_synsets_are_names_where_there_are_no_words(tmp_path):
    build(tmp_path)
    (tmp_path / "words.txt").unlink()
    prepare("imagenet", tmp_path)
    path = ("n00004258", "n00015388", "n01861778", "n02085620")
    assert open_data("imagenet").label_path(1) == path


def test_the_official_archive_stays_packed(tmp_path, data_home):
    files = tmp_path / "files"
    build(files)
    prepare("imagenet", files)
    whole = open_data("imagenet")
    pack(files)
    report = prepare("imagenet", files, force=True)
    store = open_data("imagenet")
    assert (report.images, store.digest) == (15, whole.digest)
    assert np.array_equal(store.heights, whole.heights)
    assert [path.name for path in data_home.iterdir()] == ["imagenet.arrow"]


@pytest.mark.parametrize("given", ["folder", "archive"])
def test_the_official_archive_stays_packed_where_the_relations_are_missing(
    tmp_path, data_home, given, monkeypatch
):
    files = tmp_path / "files"
    build(files)
    pack(files)
    (files / "wordnet.is_a.txt").rename(tmp_path / "away")
    monkeypatch.setattr("hsearch.data.layout.unpack", lambda *_: pytest.fail("was unpacked"))
    path = files if given == "folder" else files / "ILSVRC2012_img_train.tar"
    with pytest.raises(
        DatasetError, match=r"need wordnet\.is_a\.txt \(see .*wordnet\.princeton\.edu\)"
    ):
        prepare("imagenet", path)
    (tmp_path / "away").rename(files / "wordnet.is_a.txt")
    assert prepare("imagenet", path).images == 15
    assert [path.name for path in data_home.iterdir()] == ["imagenet.arrow"]


def cut(share):
    return lambda data: data[: int(len(data) * share)]


def without_header(number):
    """Overwrites the header of an image of the third synset."""

    def damage(data):
        at = data.index(f"{CLASSES[2]}_{number}.JPEG".encode())
        return data[:at] + b"?" * 512 + data[at + 512 :]

    return damage


@pytest.mark.parametrize(
    "damage",
    [cut(0.0), cut(0.02), cut(0.3), cut(0.7), without_header(10), without_header(33)],
)
def test_a_damaged_archive_is_refused_and_a_whole_one_works_then(tmp_path, data_home, damage):
    files = tmp_path / "files"
    build(files)
    pack(files)
    archive = files / "ILSVRC2012_img_train.tar"
    whole = archive.read_bytes()
    archive.write_bytes(damage(whole))
    with pytest.raises(DatasetError, match="damaged or cut off") as caught:
        prepare("imagenet", files)
    assert "\n" not in str(caught.value)
    assert not list(data_home.iterdir())
    archive.write_bytes(whole)
    assert prepare("imagenet", files).images == 15


@pytest.mark.usefixtures("data_home")
def test_folders_that_are_no_synsets_or_empty(tmp_path):
    build(tmp_path)
    (tmp_path / "train" / "labels.txt").write_text("")
    (tmp_path / "train" / ".thumbnails").mkdir()
    (tmp_path / "train" / CLASSES[0] / ".hidden").write_text("")
    (tmp_path / "train" / "n02083346").mkdir()
    with pytest.raises(BadFilesError, match="empty folder: 1"):
        prepare("imagenet", tmp_path)
    assert prepare("imagenet", tmp_path, skip_bad=True).images == 15
    (tmp_path / "train" / "dogs").mkdir()
    with pytest.raises(DatasetError, match=r"must be a synset of .*is_a\.txt, but 'dogs' is none"):
        prepare("imagenet", tmp_path, force=True)


@pytest.mark.usefixtures("data_home")
def test_the_folders_of_the_kaggle_copy(tmp_path):
    build(tmp_path)
    (tmp_path / "ILSVRC/Data/CLS-LOC").mkdir(parents=True)
    (tmp_path / "train").rename(tmp_path / "ILSVRC/Data/CLS-LOC/train")
    assert prepare("imagenet", tmp_path).images == 15
