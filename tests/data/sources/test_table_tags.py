"""Tables of images with several labels each."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from hsearch.cli.main import main
from hsearch.data.library import open_data, prepare
from hsearch.data.records import BadFilesError, Note, Problem, Record
from hsearch.data.sources.table import records
from hsearch.data.splits import split_store
from hsearch.errors import DatasetError
from tests.data.miniature import save_images

NAMES = [f"{i:02d}.jpg" for i in range(20)]
TAGS = [("cat", "dog"), ("cat",), (), ("dog", "tree", "cat"), ("tree",)] * 4


@pytest.fixture
def images(tmp_path):
    save_images(tmp_path / "images", *NAMES)
    return tmp_path / "images"


def write(folder, text):
    folder.mkdir(exist_ok=True)
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8")
    return path


def write_parquet(folder, tags):
    path = folder / "table.parquet"
    pq.write_table(pa.table({"path": [f"{i}.jpg" for i in range(len(tags))], "tags": tags}), path)
    return path


def tags_of(path):
    return [record.tags for record in records(path) if isinstance(record, Record)]


def listed(tags=TAGS, splits=None):
    """The whole table as text."""
    cells = [";".join(own) for own in tags]
    lines = [f"{name},{cell}" for name, cell in zip(NAMES, cells, strict=True)]
    if splits:
        lines = [f"{line},{split}" for line, split in zip(lines, splits, strict=True)]
    return "\n".join([f"path,tags{',split' if splits else ''}", *lines])


def test_a_cell_has_labels_with_semicolons_between(tmp_path):
    text = "path,tags,split,id\na.jpg,cat;dog,train,x\nb.jpg,cat,test,\n"
    assert list(records(write(tmp_path, text))) == [
        Record("x", tmp_path / "a.jpg", (), "train", tags=("cat", "dog")),
        Record("b.jpg", tmp_path / "b.jpg", (), "test", tags=("cat",)),
    ]


@pytest.mark.parametrize(
    ("cell", "tags"),
    [
        ("", ()),
        (" ; ;", ()),
        (" hot dog ;  cat;", ("hot dog", "cat")),
        ("cat;dog;cat; dog", ("cat", "dog")),
        ('"a, b;c"', ("a, b", "c")),
        ("10;9", ("10", "9")),
    ],
)
def test_blanks_are_trimmed_and_labels_count_once(tmp_path, cell, tags):
    assert tags_of(write(tmp_path, f"path,tags\na,x;y\nb,{cell}\n")) == [("x", "y"), tags]


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
def test_parquet_has_lists_of_texts(tmp_path, kind):
    cells = pa.array([["dog", " cat ", "dog"], [], None, ["a;b", "", None]], kind(pa.string()))
    assert tags_of(write_parquet(tmp_path, cells)) == [("dog", "cat"), (), (), ("a;b",)]


@pytest.mark.parametrize(
    ("cells", "tags"),
    [
        (["dog; cat", None, ""], [("dog", "cat"), (), ()]),
        (pa.array(["a;b", "c", "a;b"]).dictionary_encode(), [("a", "b"), ("c",), ("a", "b")]),
        ([[3, 12], [3], []], [("3", "12"), ("3",), ()]),
        ([3.0, None, 4.0], [("3",), (), ("4",)]),
    ],
)
def test_parquet_may_have_texts_or_numbers(tmp_path, cells, tags):
    assert tags_of(write_parquet(tmp_path, cells)) == tags


@pytest.mark.parametrize("cell", [{"cat": 1}, [["cat"]], [{"name": "cat"}], b"cat", [b"cat"]])
def test_other_cells_are_problems(tmp_path, cell):
    (problem,) = records(write_parquet(tmp_path, [cell]))
    assert problem == Problem("row 1 (0.jpg)", "tags are neither text nor a list of texts")


def test_other_faults_are_problems_as_in_any_table(tmp_path):
    text = "path,tags,split\n,a;b,\n../x,a,\nb,a,trian\nc,a\nd,a;b,\n"
    *found, last = records(write(tmp_path, text))
    assert [item.where for item in found if isinstance(item, Problem)] == [
        "row 2", "row 3 (../x)", "row 4 (b)", "row 5 (c)",
    ]  # fmt: skip
    assert last == Record("d", tmp_path / "d", (), tags=("a", "b"))


@pytest.mark.parametrize("cell", ["cat|dog", "['cat', 'dog']"])
def test_one_label_each_is_told_as_another_separator_may_be_meant(tmp_path, cell):
    first, *_ = records(write(tmp_path, f'path,tags\nz,\na,cat\nb,"{cell}"\n'))
    assert isinstance(first, Note)
    assert first.text.startswith(f"no image has more than one tag; the longest is '{cell}'")
    assert "';' would part several" in first.text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("path,tags,label\na,x;y,z\n", "either `tags`.*has both: tags, label; take one"),
        ("path,level_1,tags,level_0\na,x,y,z\n", "has both: tags, level_0, level_1; take one"),
        ("path,tags,is_query\na,x;y,1\n", "has `tags` and `is_query`; take it out"),
        ("path,tags,is_query,is_gallery\na,x,,\n", "`is_query` and `is_gallery`; take them out"),
        ("path,tags\na,\nb, ; \n", "`tags` is empty in all rows of .*; give"),
        ("tags,id\nx,y\n", "needs the column `path`"),
        ("path;tags\na;x\n", "commas, but .* has semicolons"),
        ("path,Tags\na,x\n", "'Tags'.* did you mean 'tags'"),
        ("path,labels\na,x;y\n", "did you mean 'label', or 'tags' for several per image"),
        ("path,tags,tags\na,x,y\n", "has two 'tags'"),
    ],
)
def test_wrong_tables_are_one_sentence_and_leave_nothing(tmp_path, data_home, text, sentence):
    table = write(tmp_path / "mine", text)
    with pytest.raises(DatasetError, match=sentence) as caught:
        prepare("mine", table)
    assert "\n" not in str(caught.value)
    assert not list(data_home.iterdir())
    result = CliRunner().invoke(main, ["data", "prepare", "mine", "--from", str(table)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"hsearch: error: {caught.value}\n"


def test_columns_like_those_of_one_label_are_ignored_beside_tags(tmp_path):
    note, *_ = records(write(tmp_path, "path,tags,labels,level\na,x;y,1,2\n"))
    assert note == Note("ignored columns: labels, level")


@pytest.mark.usefixtures("data_home")
def test_without_split_a_fifth_of_the_images_is_the_test(images):
    report = prepare("mine", write(images, listed()))
    assert (report.images, report.tags, report.notes) == (20, 3, ())
    store = open_data("mine")
    assert store.tag_names == ("cat", "dog", "tree")
    assert {
        store.ids[row]: {store.tag_names[tag] for tag in store.tags[row].nonzero()[0]}
        for row in range(20)
    } == {name: set(own) for name, own in zip(NAMES, TAGS, strict=True)}
    splits = split_store(store)
    assert (len(splits.trainval), len(splits.test)) == (16, 4)
    share = store.tags.sum(axis=0) / 5
    assert (abs(store.tags[splits.test].sum(axis=0) - share) < 1).all()


@pytest.mark.usefixtures("data_home")
def test_the_split_of_a_table_is_kept_and_validation_is_trained_on(images):
    marks = ["test" if i >= 15 else "validation" if i % 3 else "train" for i in range(20)]
    prepare("mine", write(images, listed(splits=marks)))
    store = open_data("mine")
    splits = split_store(store)
    assert [store.ids[row] for row in splits.test] == NAMES[15:]
    for number in range(4):
        fold = splits.fold(number)
        assert sorted([*fold.train, *fold.validation]) == splits.trainval.tolist()


@pytest.mark.usefixtures("data_home")
def test_csv_and_parquet_give_the_same_store(images):
    prepare("mine", write(images, listed()))
    digest = open_data("mine").digest
    lists = pa.table({"path": NAMES, "tags": [list(own) for own in TAGS]})
    pq.write_table(lists, images / "lists.parquet")
    prepare("mine", images / "lists.parquet", force=True)
    assert open_data("mine").digest == digest


def test_images_that_are_missing_stop_it_or_are_left_out(images, data_home):
    table = write(images, listed())
    (images / NAMES[0]).unlink()
    with pytest.raises(BadFilesError, match="missing: 1"):
        prepare("mine", table)
    assert not list(data_home.iterdir())
    assert prepare("mine", table, skip_bad=True).images == 19
