import dataclasses
import hashlib
import pickle

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from hsearch.data import store_writer
from hsearch.data.records import BadFilesError, Problem, Record
from hsearch.data.store import Store
from hsearch.data.store_writer import write_store
from hsearch.errors import DatasetError
from tests.data.toy import encode, photo, toy_records, toy_store


def test_a_store_gives_back_what_was_written(tmp_path):
    records = toy_records()
    store = toy_store(tmp_path / "toy.arrow", records, level_names=("group", "class"))
    assert len(store) == len(records)
    assert store.name == "toy"
    assert store.ids == [record.id for record in records]
    assert store.hierarchy.level_names == ("group", "class")
    for row, record in enumerate(records):
        assert bytes(store.encoded(row)) == record.image
        assert store.label_path(int(store.classes[row])) == record.labels
    heights, widths = store.sizes([0, 3])
    assert (heights.tolist(), widths.tolist()) == ([40, 52], [60, 36])
    assert store.is_query.all()
    assert store.is_gallery.all()


def test_rows_of_classes_ascend(tmp_path):
    store = toy_store(tmp_path / "toy.arrow")
    assert store.rows([5, 2]).tolist() == [8, 9, 10, 11, 20, 21, 22, 23]
    assert store.rows([]).tolist() == []


def test_many_batches_read_as_one(tmp_path, monkeypatch):
    whole = toy_store(tmp_path / "whole.arrow")
    monkeypatch.setattr(store_writer, "_BATCH_BYTES", 3000)
    parts = toy_store(tmp_path / "parts.arrow")
    assert parts.digest == whole.digest
    rows = range(len(whole))
    assert [bytes(parts.encoded(r)) for r in rows] == [bytes(whole.encoded(r)) for r in rows]
    with pytest.raises(IndexError):
        parts.encoded(len(parts))


def test_images_are_not_copied(tmp_path):
    store = toy_store(tmp_path / "toy.arrow")
    allocated = pa.total_allocated_bytes()
    views = [store.encoded(row) for row in range(len(store))]
    assert pa.total_allocated_bytes() == allocated
    assert all(view.readonly for view in views)


def test_the_order_of_records_does_not_matter(tmp_path):
    first = toy_store(tmp_path / "a" / "toy.arrow", toy_records())
    second = toy_store(tmp_path / "b" / "toy.arrow", reversed(toy_records()))
    assert first.path.read_bytes() == second.path.read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"id": "other"},
        {"split": "test"},
        {"is_query": False},
        {"image": encode(photo(7777))},
        {"labels": ("group-1", "class-00")},
    ],
)
def test_the_digest_follows_the_content(tmp_path, change):
    records = toy_records()
    changed = [dataclasses.replace(records[0], **change), *records[1:]]
    before = toy_store(tmp_path / "a.arrow", records)
    after = toy_store(tmp_path / "b.arrow", changed, skip_bad=True)
    assert before.digest != after.digest


def test_classes_are_sorted_by_order_then_path(tmp_path):
    image = encode(photo(0))
    records = [
        Record(f"{labels}{i}", image, labels, order=order)
        for labels, order in ((("b", "x"), 2), (("a", "z"), 2), (("c", "y"), 1))
        for i in range(2)
    ]
    store = toy_store(tmp_path / "toy.arrow", records)
    paths = [store.label_path(label) for label in range(3)]
    assert paths == [("c", "y"), ("a", "z"), ("b", "x")]


def test_splits_have_one_name_in_any_case(tmp_path):
    names = ["Train", "trainval", "VAL", "test", "", " Test "]
    records = [
        dataclasses.replace(record, split=names[i % 6]) for i, record in enumerate(toy_records())
    ]
    store = toy_store(tmp_path / "toy.arrow", records)
    assert store.split[:6].tolist() == ["train", "train", "train", "test", "", "test"]
    for name in ("validation", "valid", "dev", "Training"):
        toy_store(tmp_path / "b.arrow", [dataclasses.replace(r, split=name) for r in records[:4]])
    with pytest.raises(DatasetError, match="'first'"):
        toy_store(tmp_path / "b.arrow", [dataclasses.replace(records[0], split="first")])


BAD: list[Record | Problem] = [
    *toy_records(),
    Record("text", b"no image", ("group-0", "class-00")),
    Record("cut", encode(photo(1))[:-100], ("group-0", "class-00")),
    Record("00-0", encode(photo(1)), ("group-0", "class-00")),
    Record("alone", encode(photo(2)), ("group-0", "lonely")),
    Record("pair-0", encode(photo(3)), ("group-0", "pair")),
    Record("pair-1", b"no image", ("group-0", "pair")),
    Problem("some/folder", "empty folder"),
]


def test_bad_records_are_all_listed_and_nothing_is_written(tmp_path):
    with pytest.raises(BadFilesError, match="--skip-bad") as raised:
        toy_store(tmp_path / "toy.arrow", BAD)
    assert raised.value.report.by_reason() == {
        "class with a single image": ["group-0/lonely", "group-0/pair"],
        "not a JPEG, PNG or WEBP image": ["text", "pair-1"],
        "duplicate id": ["00-0"],
        "empty folder": ["some/folder"],
        "truncated or damaged": ["cut"],
    }
    assert list(tmp_path.iterdir()) == []


def test_skip_bad_goes_on_with_the_rest(tmp_path):
    store = toy_store(tmp_path / "toy.arrow", BAD, skip_bad=True)
    assert store.digest == toy_store(tmp_path / "good.arrow").digest


def test_identical_images_are_told_but_kept(tmp_path):
    records = [*toy_records(), Record("again", toy_records()[0].image, ("group-1", "class-01"))]
    report = write_store(tmp_path / "toy.arrow", "toy", records, provenance={})
    assert report.duplicates == (("00-0", "again"),)
    assert report.images == len(records)


def test_a_bomb_is_reported_like_any_bad_file(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40 * 60)
    big = Record("big", encode(photo(0, 50, 60)), ("group-0", "class-00"))
    with pytest.raises(BadFilesError, match=r"decompression bomb .*: 1\)"):
        toy_store(tmp_path / "toy.arrow", [*toy_records(), big])


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("phase", ["preparing toy", "writing toy", "checking toy"])
def test_an_interruption_leaves_nothing(tmp_path, phase, error):
    def stop(what: str, done: int, total: int) -> None:
        if what == phase and done > total // 2:
            raise error

    with pytest.raises((KeyboardInterrupt, DatasetError)):
        write_store(tmp_path / "toy.arrow", "toy", toy_records(), provenance={}, progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_no_usable_image_is_an_error(tmp_path):
    with pytest.raises(DatasetError, match="No image"):
        toy_store(tmp_path / "toy.arrow", [])


@pytest.mark.parametrize("skip_bad", [False, True])
def test_where_all_is_bad_the_error_has_the_report(tmp_path, skip_bad):
    tagged = [Record(f"{i}", b"", (), tags=("a",)) for i in range(2)]
    for records in (toy_records(2, 1), tagged):
        with pytest.raises(
            BadFilesError, match=r"2 entries cannot be used and nothing else is left \("
        ) as raised:
            toy_store(tmp_path / "toy.arrow", records, skip_bad=skip_bad)
        assert len(raised.value.report.problems) == 2
        assert "--skip-bad" not in str(raised.value)
        assert "class" not in str(raised.value) or records is not tagged


def test_what_cannot_be_read_is_not_told_as_what_cannot_be_written(tmp_path):
    def source():
        yield toy_records()[0]
        raise PermissionError(13, "Permission denied", "/data/list.txt")

    with pytest.raises(
        DatasetError, match=r"data cannot be read: /data/list\.txt: Permission denied"
    ):
        toy_store(tmp_path / "toy.arrow", source())

    def fail():
        raise OSError(5, "Input/output error")

    records = toy_records()
    records[3] = dataclasses.replace(records[3], image=fail)
    with pytest.raises(BadFilesError, match="unreadable: 1"):
        toy_store(tmp_path / "toy.arrow", records)
    assert not list(tmp_path.iterdir())


def test_label_paths_of_other_depth_are_an_error(tmp_path):
    with pytest.raises(DatasetError, match="same depth"):
        toy_store(tmp_path / "toy.arrow", [*toy_records(), Record("x", b"", ("deep", "a", "b"))])


def test_files_that_are_no_stores_are_named(tmp_path):
    path = tmp_path / "toy.arrow"
    with pytest.raises(DatasetError, match="does not exist"):
        Store.open(path)
    path.write_bytes(b"text")
    with pytest.raises(DatasetError, match="not a store"):
        Store.open(path)
    toy_store(path)
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(DatasetError, match="damaged"):
        Store.open(path)
    table = pa.table({"a": [1]})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(DatasetError, match="not a store"):
        Store.open(path)


def test_another_format_version_is_refused(tmp_path, monkeypatch):
    store = toy_store(tmp_path / "toy.arrow")
    monkeypatch.setattr("hsearch.data.header.FORMAT_VERSION", 99)
    with pytest.raises(DatasetError, match=r"format version 1.*reads version 99"):
        Store.open(store.path)


def test_opening_reads_no_image(tmp_path):
    """A store whose image bytes are destroyed opens with the same digest."""
    store = toy_store(tmp_path / "toy.arrow")
    whole = store.path.read_bytes()
    image = bytes(store.encoded(9))
    store.path.write_bytes(whole.replace(image, bytes(len(image))))
    again = Store.open(store.path)
    assert again.digest == store.digest
    assert bytes(again.encoded(9)) == bytes(len(image))


def test_a_store_travels_to_other_processes_by_its_path(tmp_path):
    store = toy_store(tmp_path / "toy.arrow")
    copy = pickle.loads(pickle.dumps(store))
    assert len(pickle.dumps(store)) < 500
    assert hashlib.sha256(copy.encoded(3)).digest() == hashlib.sha256(store.encoded(3)).digest()
    assert np.array_equal(copy.classes, store.classes)
