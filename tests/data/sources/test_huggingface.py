import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hsearch.data.library import open_data, prepare
from hsearch.data.records import BadFilesError, LevelNames, Note, Problem, Record
from hsearch.data.sources.huggingface import records
from hsearch.data.splits import store_splits
from hsearch.errors import DatasetError
from tests.data.miniature import save_images

KINDS = ("csv", "jsonl", "parquet")


def write(folder, kind, rows):
    """Metadata as Hugging Face reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"metadata.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        lines = [rows[0], *(row.values() for row in rows)]
        text = "\n".join(",".join(map(str, line)) for line in lines)
        path.write_text(text, encoding="utf-8")
    return path


def images(labels=range(16), folder="", per_class=2, **more):
    return [
        {"file_name": f"{folder}{label}-{i}.jpg", "label": label, **more}
        for label in labels
        for i in range(per_class)
    ]


def read(path, levels=None):
    """All but the names of levels."""
    return [item for item in records(path, levels) if not isinstance(item, LevelNames)]


@pytest.mark.usefixtures("data_home")
@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_levels_may_have_names_of_their_own(tmp_path, kind):
    rows = [{**row, "family": row["label"] // 4} for row in images()]
    write(tmp_path / "mine", kind, rows)
    save_images(tmp_path / "mine", *(row["file_name"] for row in rows))
    prepare("mine", tmp_path / "mine", levels=["family", "label"])
    hierarchy = open_data("mine").hierarchy
    assert (hierarchy.level_names, hierarchy.sizes) == (("family", "label"), (4, 16))
    prepare("mine", tmp_path / "mine", levels=["species"], force=True)
    assert open_data("mine").hierarchy.level_names == ("species",)


@pytest.mark.usefixtures("data_home")
@pytest.mark.parametrize("kind", KINDS)
def test_own_data_with_metadata_are_chosen_by_their_files(tmp_path, kind):
    rows = images(folder="pictures/")
    write(tmp_path / "mine", kind, rows)
    save_images(tmp_path / "mine", *(row["file_name"] for row in rows))
    report = prepare("mine", tmp_path / "mine")
    assert (report.images, report.classes, report.notes) == (32, 16, ())
    store = open_data("mine")
    assert store.provenance["source"] == "huggingface"
    assert store.hierarchy.names[-1] == tuple(map(str, range(16)))
    assert set(store.split.tolist()) == {""}
    assert store.ids[0] == "pictures/0-0.jpg"


@pytest.mark.usefixtures("data_home")
@pytest.mark.parametrize("kind", KINDS)
def test_folders_of_splits(tmp_path, kind):
    for name, labels in {"train": range(8), "test": range(8, 12), "validation": [12]}.items():
        rows = images(labels)
        write(tmp_path / "mine" / name, kind, rows)
        save_images(tmp_path / "mine" / name, *(row["file_name"] for row in rows))
    prepare("mine", tmp_path / "mine")
    store = open_data("mine")
    assert store.split.tolist() == 16 * ["train"] + 8 * ["test"] + 2 * ["train"]
    assert store_splits(store).test.tolist() == [8, 9, 10, 11]
    assert store.ids[0] == "train/0-0.jpg"


@pytest.mark.parametrize(
    ("folders", "splits"),
    [
        (("train/", "test/"), ["train", "test"]),
        (("Training/a/", "dev/"), ["train", "val"]),
        (("train/", "evaluation/"), ["train", "test"]),
        (("train/", "train/"), ["", ""]),
        (("train/", "other/"), ["", ""]),
        (("train/", ""), ["", ""]),
    ],
)
def test_metadata_at_the_top_know_splits_by_the_folders_of_images(tmp_path, folders, splits):
    rows = [{"file_name": f"{name}{i}.jpg", "label": "a"} for i, name in enumerate(folders)]
    write(tmp_path, "csv", rows)
    assert [record.split for record in read(tmp_path)] == splits


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_gives_splits_levels_and_marks(tmp_path, kind):
    row = {"file_name": "train/a.jpg", "level_1": "x", "level_0": "y", "split": "test"}
    more = {"is_query": True, "is_gallery": True, "mask_file_name": "b.png", "text": "a cat"}
    write(tmp_path, kind, [{**row, **more}])
    assert read(tmp_path) == [
        Note("ignored columns: mask_file_name, text"),
        Record("train/a.jpg", tmp_path / "train/a.jpg", ("y", "x"), "test"),
    ]


def test_keys_may_be_missing_nested_or_called_path(tmp_path):
    lines = [
        {"file_name": "a.jpg", "label": 2, "objects": {"bbox": [[1, 2]]}},
        {"label": 1.0, "file_name": "b.jpg", "path": "x/y"},
        {"file_name": "c.jpg"},
        {"label": 1},
        {"file_name": "../d.jpg", "label": 1},
        {"file_name": "/etc/passwd", "label": 1},
    ]
    write(tmp_path, "jsonl", lines)
    assert read(tmp_path) == [
        Note("ignored columns: path, objects"),
        Record("a.jpg", tmp_path / "a.jpg", ("2",), order=2),
        Record("b.jpg", tmp_path / "b.jpg", ("1",), order=1),
        Problem("row 3 (c.jpg)", "empty label"),
        Problem("row 4", "empty path"),
        Problem("row 5 (../d.jpg)", "path out of the table's folder"),
        Problem("row 6 (/etc/passwd)", "path out of the table's folder"),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_images_may_have_several_labels(tmp_path, kind):
    tags = ["cat;dog", ""] if kind == "csv" else [["cat", "dog"], []]
    for folder in ("train", "test"):
        rows = [{"file_name": f"{i}.jpg", "tags": own} for i, own in enumerate(tags)]
        write(tmp_path / folder, kind, rows)
    assert read(tmp_path) == [
        Record(f"{folder}/{i}.jpg", tmp_path / folder / f"{i}.jpg", (), folder, tags=own)
        for folder in ("test", "train")
        for i, own in enumerate([("cat", "dog"), ()])
    ]


def test_objects_that_lack_tags_have_none(tmp_path):
    lines = [{"file_name": "a.jpg", "tags": ["x", "y"]}, {"file_name": "b.jpg"}]
    write(tmp_path, "jsonl", [*lines, {"file_name": "c.jpg", "tags": {"x": 1}}])
    assert read(tmp_path) == [
        Record("a.jpg", tmp_path / "a.jpg", (), tags=("x", "y")),
        Record("b.jpg", tmp_path / "b.jpg", ()),
        Problem("row 3 (c.jpg)", "tags are neither text nor a list of texts"),
    ]


@pytest.mark.usefixtures("data_home")
def test_what_is_missing_or_not_listed(tmp_path):
    rows = images([1, 2], per_class=3)
    write(tmp_path / "mine", "jsonl", rows)
    save_images(tmp_path / "mine", *(row["file_name"] for row in rows[1:]), "other.jpg")
    with pytest.raises(BadFilesError, match="missing: 1"):
        prepare("mine", tmp_path / "mine")
    report = prepare("mine", tmp_path / "mine", skip_bad=True)
    assert report.images == 5
    (note,) = report.notes
    assert note.startswith("left out 1 images that are not listed, such as")
    assert note.endswith("other.jpg")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("metadata.jsonl", b'{"file_name": "a", "label": 1}\n{"file', "Line 2 of .* is no JSON"),
        ("metadata.jsonl", b'{"a":' * 100_000, "Line 1 of .* nests too deep, or a number"),
        (
            "metadata.jsonl",
            b'{"label": ' + b"9" * 5_000 + b"}",
            "Line 1 of .* a number is too long",
        ),
        ("metadata.jsonl", b"[1, 2]\n", "Line 1 of .* must be a JSON object"),
        ("metadata.jsonl", b'{"file_name": "\xff"}\n', "cannot be read as UTF-8"),
        ("metadata.jsonl", b"\r\n\n", "have no rows"),
        ("metadata.csv", b"file_name,label\n", "has no rows"),
        ("metadata.csv", b"file_name,text\na.jpg,x\n", "`file_name` and either `label`.*text"),
        ("metadata.csv", b"filename,label\na.jpg,x\n", "`file_name` and either.*has: filename"),
        ("metadata.csv", b"file_name,label,spilt\na.jpg,x,y\n", "did you mean 'split'"),
        ("metadata.csv", b"file_name,label,level_0\na.jpg,x,y\n", "has both"),
        ("metadata.csv", b"file_name,label,tags\na.jpg,x,y\n", "has both: tags, label"),
        ("metadata.jsonl", b'{"file_name": "a.jpg", "tags": []}', "`tags` is empty in all rows"),
        ("metadata.csv", b"file_name,label\n\xff,x\n", "cannot be read as UTF-8"),
        ("metadata.parquet", b"PAR1", "cannot be read as Parquet"),
        ("train/metadata.csv", b"file_name,label,a\nx,1,2\n", "the same columns, but .*test"),
        ("test/metadata.jsonl", b"{}", "needs one of .* but .* has test/metadata.csv, test/"),
    ],
)
def test_wrong_metadata_are_one_sentence(tmp_path, data_home, name, content, message):
    folder = tmp_path / "mine"
    if "/" in name:
        write(folder / "test", "csv", images([1]))
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=message) as caught:
        prepare("mine", folder)
    assert "\n" not in str(caught.value)
    assert not list(data_home.iterdir())


def test_windows_line_ends_and_a_mark_at_the_beginning(tmp_path):
    path = write(tmp_path, "jsonl", images([1, 2]))
    before = read(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert read(tmp_path) == before


def test_a_folder_without_metadata_is_refused_by_name(tmp_path, data_home):
    save_images(tmp_path / "tree", "a/metadata.jpg")
    with pytest.raises(DatasetError, match=r"needs one of metadata.csv, .* has none\."):
        prepare("huggingface", tmp_path / "tree")


def test_classes_that_have_metadata_are_no_splits(tmp_path):
    write(tmp_path / "cats", "csv", images([1]))
    with pytest.raises(DatasetError, match=r"has none\."):
        read(tmp_path)
