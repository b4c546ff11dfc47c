import numpy as np
import pytest

from hsearch.errors import DatasetError
from hsearch.evaluation.evaluate import retrieval_metrics
from hsearch.evaluation.query_table import QueryTable, read_query_tables, write_query_tables


def test_scores_of_the_queries_have_the_means_of_the_metrics():
    rng = np.random.default_rng(0)
    labels = np.column_stack([np.arange(40) // 20, np.arange(40) // 4])
    labels[-1, 1] = 99  # a query without a relevant image
    queries = np.arange(40) % 3 < 2
    kept: list[QueryTable] = []
    means = retrieval_metrics(
        rng.normal(size=(40, 5)),
        labels,
        queries=queries,
        whole_list=True,
        keep=kept.append,
    )
    (table,) = kept
    assert table.rows.tolist() == np.flatnonzero(queries).tolist()
    assert table.values.keys() == means.keys()
    assert np.flatnonzero(np.isnan(table.values["map_at_r"])).tolist() == [len(table.rows) - 1]
    for name, values in table.values.items():
        assert np.nanmean(values, dtype=np.float64) == pytest.approx(means[name], abs=1e-6), name


def test_a_file_gives_back_what_was_written(tmp_path):
    rows = np.array([0, 2, 5])
    tables = {
        "separated": QueryTable(rows, {"level_0/ap": np.array([0.5, np.nan, 1], np.float32)}),
        "concatenated": QueryTable(rows, {"ap": np.array([0, 1, 1], np.float32)}),
    }
    write_query_tables(tmp_path / "queries.npz", tables)
    found = read_query_tables(tmp_path / "queries.npz")
    assert found.keys() == tables.keys()
    for name, table in tables.items():
        assert found[name].rows.tolist() == [0, 2, 5]
        for metric, values in table.values.items():
            np.testing.assert_array_equal(found[name].values[metric], values)
    assert [path.name for path in tmp_path.iterdir()] == ["queries.npz"]


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut off"])
def test_a_damaged_file_is_a_sentence(tmp_path, content):
    path = tmp_path / "queries.npz"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=r"The scores in .*queries\.npz cannot be read"):
        read_query_tables(path)


def test_nothing_is_unpickled(tmp_path):
    path = tmp_path / "queries.npz"
    np.savez(path, rows=np.array([{}], dtype=object))
    with pytest.raises(DatasetError, match="cannot be read"):
        read_query_tables(path)
