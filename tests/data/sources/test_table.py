import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hsearch.data.records import LevelNames, Note, Problem, Record
from hsearch.data.sources.table import records
from hsearch.data.tables import read_table
from hsearch.errors import DatasetError


def read(path, text, levels=None):
    """All but the names of levels."""
    return [item for item in found(path, text, levels) if not isinstance(item, LevelNames)]


def found(path, text, levels=None):
    path = path / "table.csv"
    path.write_text(text, encoding="utf-8")
    return list(records(path, levels))


def test_one_level(tmp_path):
    rows = read(tmp_path, "path,label\na/1.jpg,cat\nb/2.jpg,dog\n")
    assert rows == [
        Record("a/1.jpg", tmp_path / "a/1.jpg", ("cat",)),
        Record("b/2.jpg", tmp_path / "b/2.jpg", ("dog",)),
    ]


def test_many_levels_and_all_columns(tmp_path):
    text = "level_1,level_0,path,id,split,is_query,is_gallery,extra\n"
    text += "coupe,bmw,1.jpg,x,test,True,0,9\ncoupe,bmw,2.jpg,y,test,no,yes,9\n"
    assert read(tmp_path, text) == [
        Note("ignored columns: extra"),
        Record("x", tmp_path / "1.jpg", ("bmw", "coupe"), "test", True, False),
        Record("y", tmp_path / "2.jpg", ("bmw", "coupe"), "test", False, True),
    ]


def test_integer_labels_give_the_order_of_classes(tmp_path):
    rows = read(tmp_path, "path,label\na,10\nb,9\nc,-1\n")
    assert [row.order for row in rows] == [10, 9, -1]
    rows = read(tmp_path, "path,level_0,level_1\na,x,10\nb,y,9\n")
    assert [row.order for row in rows] == [10, 9]
    rows = read(tmp_path, "path,label\na,10\nb,nine\n")
    assert [row.order for row in rows] == [0, 0]


@pytest.mark.parametrize(
    ("columns", "levels", "names"),
    [
        ("path,label", None, ("label",)),
        ("path,label", ("species",), ("species",)),
        ("path,level_1,level_0", None, ("level_0", "level_1")),
        ("path,level_1,level_0", ("family", "species"), ("family", "species")),
    ],
)
def test_levels_are_called_like_their_columns_or_as_the_user_says(tmp_path, columns, levels, names):
    cells = ",".join(f"{column}-cell" for column in columns.split(","))
    assert found(tmp_path, f"{columns}\n{cells}\n", levels)[0] == LevelNames(names)


def test_columns_of_labels_may_have_names_of_their_own(tmp_path):
    text = "path,species,family,label,note\na,Ani,Cuckoos,7,x\n"
    assert found(tmp_path, text, ("family", "species")) == [
        Note("ignored columns: label, note"),
        LevelNames(("family", "species")),
        Record("a", tmp_path / "a", ("Cuckoos", "Ani")),
    ]
    assert read(tmp_path, text, ("family", "label"))[1].labels == ("Cuckoos", "7")


@pytest.mark.parametrize(
    ("columns", "levels", "message"),
    [
        ("path,family,kind", ("family", "species"), "has no species; it has: path, family, kind"),
        ("path,family,species", ("order", "genus"), "columns that --levels names"),
        ("path,family,split", ("family", "split"), "`split` of a table is never a level"),
        ("path,label", ("family", "species"), "must name every level.*has 1 level, such as label"),
        ("path,tags", ("family",), "leave --levels out"),
        ("path,tags,family", ("family",), "has both: tags, family"),
        ("path,family,spilt", ("family",), "'spilt'.*'split'"),
    ],
)
def test_levels_that_a_table_has_not_are_named(tmp_path, columns, levels, message):
    cells = ",".join("x" for _ in columns.split(","))
    with pytest.raises(DatasetError, match=message):
        found(tmp_path, f"{columns}\n{cells}\n", levels)


@pytest.mark.parametrize("bad", ["b,", ",x", "b,x,y"])
@pytest.mark.parametrize("column", ["label", "level_0"])
def test_a_bad_row_does_not_change_the_order_of_the_others(tmp_path, column, bad):
    rows = read(tmp_path, f"path,{column}\na,10\n{bad}\nc,9\n")
    assert [row.order for row in rows if isinstance(row, Record)] == [10, 9]


def test_integers_beside_missing_cells_stay_integers(tmp_path):
    path = tmp_path / "table.parquet"
    labels = pa.array([101.0, float("nan"), 2.0])
    pq.write_table(pa.table({"path": ["a", "b", "c"], "label": labels}), path)
    assert list(records(path))[1:] == [
        Record("a", tmp_path / "a", ("101",), order=101),
        Problem("row 2 (b)", "empty label"),
        Record("c", tmp_path / "c", ("2",), order=2),
    ]


def test_validation_is_held_out_only_in_tables_of_queries_and_gallery(tmp_path):
    marked = "path,label,split,is_query,is_gallery\na,1,train,,\nb,2,validation,1,1\n"
    assert [row.split for row in read(tmp_path, marked)] == ["train", "test"]
    assert [row.split for row in read(tmp_path, marked + "c,3,test,1,1\n")][1] == "val"
    plain = "path,label,split\na,1,train\nb,2,validation\n"
    assert [row.split for row in read(tmp_path, plain)] == ["train", "val"]


def test_empty_marks_count_as_yes(tmp_path):
    (row,) = read(tmp_path, "path,label,split,is_query,is_gallery\na,1,train,,\n")
    assert (row.is_query, row.is_gallery) == (True, True)


def test_bad_cells_are_problems_and_named_by_their_line(tmp_path):
    text = "path,label,split,is_query,is_gallery\n,cat,,,\nb,,,,\n\n"
    text += '"c","two\nlines",,,\nd,cat,trian,,\ne,cat,,maybe,\nf,cat,,,2\ng,cat,,0,no\n'
    assert [item for item in read(tmp_path, text) if isinstance(item, Problem)] == [
        Problem("row 2", "empty path"),
        Problem("row 3 (b)", "empty label"),
        Problem(
            "row 7 (d)",
            "split is none of train, training, trainval, validation, valid, val, dev, test, "
            "testing, eval, evaluation",
        ),
        Problem("row 8 (e)", "is_query is not true, false or empty"),
        Problem("row 9 (f)", "is_gallery is not true, false or empty"),
        Problem("row 10 (g)", "neither query nor gallery"),
    ]


def test_rows_with_too_few_or_too_many_fields_are_problems(tmp_path):
    assert read(tmp_path, "path,label,split\na,cat\nb,cat,,\nc,cat,\n") == [
        Problem("row 2 (a)", "row has 2 of 3 fields"),
        Problem("row 3 (b)", "row has 4 of 3 fields"),
        Record("c", tmp_path / "c", ("cat",)),
    ]


@pytest.mark.parametrize(
    ("columns", "meant"),
    [
        ("path,label,spilt", "'spilt'.*'split'"),
        ("path,label,is_querry", "'is_querry'.*'is_query'"),
        ("Path,label,x", "'Path'.*'path'"),
        ("path,labels,x", "'labels'.*'label'"),
        ("path,level_0,level-1", "'level-1'.*'level_1'"),
        ("path,label,ID", "'ID'.*'id'"),
    ],
)
def test_a_misspelt_column_is_named(tmp_path, columns, meant):
    with pytest.raises(DatasetError, match=meant):
        read(tmp_path, f"{columns}\na,b,c\n")


def test_other_columns_are_ignored_and_told(tmp_path):
    extra = ["", "x_1", "category", "idx", "split_2", "level", "sequence"]
    rows = read(tmp_path, f"path,label,split,{','.join(extra)}\na,b,train{',1' * len(extra)}\n")
    told = "(no name), x_1, category, idx, split_2, level, sequence"
    assert rows == [
        Note(f"ignored columns: {told}"),
        Record("a", tmp_path / "a", ("b",), "train"),
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,1,,0,1\nb,2,,0,1\n", "`is_query` is false in all rows"),
        ("a,1,,1,0\nb,2,,1,0\n", "`is_gallery` is false in all rows"),
        ("a,1,train,,\nb,2,test,0,1\n", "`is_query` is false in all test rows"),
        ("a,1,train,,\nb,2,validation,1,0\n", "`is_gallery` is false in all test rows"),
    ],
)
def test_a_table_needs_queries_and_a_gallery(tmp_path, rows, message):
    with pytest.raises(DatasetError, match=message):
        read(tmp_path, f"path,label,split,is_query,is_gallery\n{rows}")


def test_paths_out_of_the_folder_are_problems(tmp_path):
    folder = tmp_path / "data"
    (folder / "a").mkdir(parents=True)
    (tmp_path / "secret.jpg").write_bytes(b"")
    (folder / "a" / "file.jpg").symlink_to(tmp_path / "secret.jpg")
    (folder / "a" / "up").symlink_to(tmp_path)
    out = ["/etc/passwd", "../secret.jpg", "a/../../secret.jpg", "a/file.jpg", "a/up/secret.jpg"]
    out.append("a\0b.jpg")
    rows = read(folder, "path,label\n" + "".join(f"{path},cat\n" for path in out))
    reason = "path out of the table's folder"
    assert rows == [Problem(f"row {i} ({path})", reason) for i, path in enumerate(out, start=2)]


def test_any_way_of_writing_a_path_inside_the_folder_is_good(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    inside = ["real/1.jpg", "link/1.jpg", "real/../1.jpg", str(tmp_path / "real" / "1.jpg")]
    rows = read(tmp_path / "link", "path,label\n1.jpg,cat\n")
    rows += read(tmp_path, "path,label\n" + "".join(f"{path},cat\n" for path in inside))
    assert [row.id for row in rows] == ["1.jpg", *inside]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no rows"),
        ("path,label\n", "no rows"),
        ("file,label\na,b\n", "needs the column `path`"),
        ("path,class\na,b\n", "either `label`, or `level_0`.* or `tags`"),
        ("path,label,level_0\na,b,c\n", "has both: label, level_0"),
        ("path;label\na;b\n", "commas, but .* has semicolons"),
        ("path\tlabel\na\tb\n", "commas, but .* has tabs"),
        ("path,label,path\na,b,c\n", "has two 'path'"),
        ("path,level_0,level_2\na,b,c\n", "have a gap"),
        ('path,label\n"a,b\n', "cannot be read as UTF-8 CSV"),
    ],
)
def test_wrong_tables_are_named(tmp_path, text, message):
    with pytest.raises(DatasetError, match=message):
        read(tmp_path, text)


def test_parquet_reads_as_csv(tmp_path):
    path = tmp_path / "table.parquet"
    columns = {"path": ["a", "b"], "label": [3, 12], "is_query": [True, None]}
    pq.write_table(pa.table(columns), path)
    assert list(records(path)) == [
        LevelNames(("label",)),
        Record("a", tmp_path / "a", ("3",), order=3),
        Record("b", tmp_path / "b", ("12",), order=12),
    ]


@pytest.mark.parametrize("name", ["bad.csv", "bad.parquet"])
def test_unreadable_tables_are_named(tmp_path, name):
    (tmp_path / name).write_bytes(b"\xff\xfe\x00path")
    with pytest.raises(DatasetError, match="cannot be read"):
        list(records(tmp_path / name))


def test_a_table_must_be_a_file(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(DatasetError, match=r"must be a file, but .*t\.csv is none"):
        read_table(tmp_path / "t.csv")
