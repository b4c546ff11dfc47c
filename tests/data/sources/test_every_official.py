"""What holds for every data set with an official layout, and every way its files can be wrong."""

import importlib
import io
import os
import shutil
import tarfile
import zipfile

import numpy as np
import pytest

from hsearch.data.library import open_data, prepare
from hsearch.data.records import BadFilesError
from hsearch.data.sources import available_sources, load_source
from hsearch.data.splits import split_store
from hsearch.errors import DatasetError
from hsearch.folds import ALL_CLASSES, NUM_FOLDS
from tests.data.miniature import Miniature
from tests.data.toy import save

OFFICIAL = [name for name in available_sources() if load_source(name).home]


def miniature(name: str) -> Miniature:
    module = load_source(name).module
    tests = importlib.import_module(f"tests.data.sources.test_{module}")
    found: Miniature = next(each for each in tests.MINIATURES if each.name == name)
    return found


EVERY = [miniature(name) for name in OFFICIAL]


def having(attribute: str) -> list:
    """All miniatures, once per item of a tuple, as parameters of a test."""
    return [
        pytest.param(each, item, id=f"{each.name}-{number}")
        for each in EVERY
        for number, item in enumerate(getattr(each, attribute))
    ]


@pytest.fixture
def files(tmp_path):
    path = tmp_path / "files"
    path.mkdir()
    return path


def digest(mini: Miniature) -> str:
    return open_data(mini.name).digest


def assert_refused(mini, path, data_home, message):
    """Raises one sentence and leaves nothing."""
    with pytest.raises(DatasetError, match=message) as caught:
        prepare(mini.name, path)
    assert "\n" not in str(caught.value)
    assert not data_home.exists() or not list(data_home.iterdir())


def archive(files, path):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as file:
            for each in sorted(files.rglob("*")):
                file.write(each, each.relative_to(files))
    else:
        with tarfile.open(path, "w:gz") as file:
            file.add(files, ".")
    return path


@pytest.mark.parametrize("mini", EVERY, ids=OFFICIAL)
def test_folder_and_archives_give_the_same_store(mini, files, tmp_path, data_home):
    mini.build(files)
    report = prepare(mini.name, files)
    store = open_data(mini.name)
    found = len(store.tag_names) or store.hierarchy.num_classes
    assert (report.images, found) == (mini.images, mini.classes)
    assert not report.problems
    total = load_source(mini.name).total or 0
    expected = f"prepared {mini.images} images; the published data set has {total:,}"
    assert (expected in report.notes) == (total > 0)
    whole = store.digest
    for suffix in ("zip", "tgz"):
        prepare(mini.name, archive(files, tmp_path / f"all.{suffix}"), force=True)
        assert digest(mini) == whole
    assert [path.name for path in data_home.iterdir()] == [f"{mini.name}.arrow"]


TAGGED = [each for each in EVERY if load_source(each.name).level_names is None]


@pytest.mark.usefixtures("data_home")
@pytest.mark.parametrize("mini", TAGGED, ids=lambda mini: mini.name)
def test_images_of_several_labels_have_folds_and_their_official_test(mini, files):
    mini.build(files)
    prepare(mini.name, files)
    store = open_data(mini.name)
    splits = split_store(store)
    assert splits.test.tolist() == np.flatnonzero(store.split == "test").tolist()
    assert sorted([*splits.trainval, *splits.test]) == list(range(len(store)))
    folds = [splits.fold(number) for number in range(NUM_FOLDS)]
    assert sorted(row for fold in folds for row in fold.validation) == splits.trainval.tolist()
    for fold in folds:
        assert sorted([*fold.train, *fold.validation]) == splits.trainval.tolist()
        assert fold.hierarchy.names == (store.tag_names,)
        assert np.array_equal(fold.train_labels, store.tags[fold.train])
    whole = splits.fold(ALL_CLASSES)
    assert (whole.train.tolist(), len(whole.validation)) == (splits.trainval.tolist(), 0)


@pytest.mark.parametrize(("mini", "path"), having("needed"))
def test_a_missing_file_is_named_with_its_home(mini, path, files, tmp_path, data_home):
    mini.build(files)
    shutil.move(files / path, tmp_path / "away")
    home = load_source(mini.name).home
    assert_refused(mini, files, data_home, f"(?s){os.path.basename(path)}.*{home}")
    shutil.move(tmp_path / "away", files / path)
    assert prepare(mini.name, files).images == mini.images


@pytest.mark.parametrize("mini", EVERY, ids=OFFICIAL)
def test_bad_archives_are_refused(mini, files, tmp_path, data_home):
    mini.build(files)
    for suffix in ("zip", "tgz"):
        path = archive(files, tmp_path / f"all.{suffix}")
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        assert_refused(mini, path, data_home, "damaged or cut off")
    with zipfile.ZipFile(tmp_path / "out.zip", "w") as file:
        file.writestr("../outside.txt", "")
    assert_refused(mini, tmp_path / "out.zip", data_home, "only hold files below")
    with tarfile.open(tmp_path / "out.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("../outside.txt"), io.BytesIO())
    assert_refused(mini, tmp_path / "out.tar", data_home, "only hold files below")
    assert not list(tmp_path.rglob("outside.txt"))


@pytest.mark.usefixtures("data_home")
@pytest.mark.parametrize(("mini", "path"), having("texts"))
def test_windows_line_ends_do_not_matter(mini, path, files):
    mini.build(files)
    prepare(mini.name, files)
    before = digest(mini)
    text = (files / path).read_bytes()
    assert b"\n" in text
    (files / path).write_bytes(text.replace(b"\n", b"\r\n"))
    prepare(mini.name, files, force=True)
    assert digest(mini) == before


@pytest.mark.parametrize(("mini", "path"), having("texts"))
def test_another_encoding_is_refused(mini, path, files, data_home):
    mini.build(files)
    text = (files / path).read_bytes()
    (files / path).write_bytes(b"\xff\xfe" + text)
    assert_refused(mini, files, data_home, f"{os.path.basename(path)} must be UTF-8")


@pytest.mark.parametrize(("mini", "fault"), having("faults"))
def test_a_fault_inside_is_one_sentence(mini, fault, files, data_home):
    mini.build(files)
    fault.apply(files)
    assert_refused(mini, files, data_home, fault.message)


LISTING = [each for each in EVERY if each.listed]


@pytest.mark.parametrize("mini", LISTING, ids=lambda mini: mini.name)
def test_listed_images_must_be_there_and_inside(mini, files, tmp_path, data_home):
    mini.build(files)
    image = files / mini.listed
    image.rename(tmp_path / "away.jpg")
    if mini.unlisted:
        assert_refused(mini, files, data_home, "missing: 1")
    image.symlink_to(tmp_path / "away.jpg")
    assert_refused(mini, files, data_home, "path out of the data's folder: 1")
    with pytest.raises(BadFilesError) as caught:
        prepare(mini.name, files)
    assert len(caught.value.report.problems) == 1
    image.unlink()
    (tmp_path / "away.jpg").rename(image)
    assert prepare(mini.name, files).images == mini.images


@pytest.mark.usefixtures("data_home")
@pytest.mark.parametrize(
    "mini", [each for each in LISTING if each.unlisted], ids=lambda mini: mini.name
)
def test_images_that_are_not_listed_are_left_out_and_told(mini, files):
    mini.build(files)
    prepare(mini.name, files)
    before = digest(mini)
    save(files / mini.unlisted, seed=99)
    report = prepare(mini.name, files, force=True)
    (note,) = [text for text in report.notes if "not listed" in text]
    assert os.path.basename(mini.unlisted) in note
    assert digest(mini) == before
