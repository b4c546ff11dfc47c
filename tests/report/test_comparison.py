"""Ranks over several data sets, and when there are none."""

import pytest

from hsearch.report.comparison import compare
from hsearch.report.entrant import Entrant
from hsearch.report.values import Comparison
from tests.report.made_reproductions import made_entrant, made_study, on_data

METHODS = ("hpl", "proxy_anchor", "proxy_nca")
DATA = ("birds", "cars", "shoes", "plants", "letters", "faces", "dogs", "houses")


def on(data: str, method: str, score: float, name: str | None = None) -> Entrant:
    study = made_study(method, name=name or f"{data}-{method}", trials=2, job=on_data(method, data))
    return made_entrant(method, [score, score + 0.01, score], study=study)


def many(data=DATA, methods=METHODS) -> list[Entrant]:
    """The methods in this order on every data set."""
    return [on(d, m, 0.7 - 0.1 * place) for d in data for place, m in enumerate(methods)]


def test_methods_are_ranked_over_the_data_sets():
    found = compare(many())
    assert [board.data for board in found.leaderboards] == list(DATA)
    assert [table.kind for table in found.ranks] == ["separated", "concatenated"]
    table = found.ranks[0]
    assert table.data == DATA
    assert table.ranks == {"hpl": 1.0, "proxy_anchor": 2.0, "proxy_nca": 3.0}
    assert table.friedman_p < 0.001
    assert table.critical_difference == pytest.approx(1.172, abs=1e-3)
    assert table.groups == (("hpl", "proxy_anchor"), ("proxy_anchor", "proxy_nca"))
    assert found.notes == ()
    assert Comparison.from_dict(found.to_dict()) == found


def test_two_data_sets_tell_nothing_apart():
    (table, _) = compare(many(DATA[:2])).ranks
    assert table.groups == (METHODS,)


def test_one_data_set_has_no_ranks():
    found = compare(many(DATA[:1]))
    assert (found.ranks, found.notes) == ((), ())


def test_methods_that_a_data_set_lacks_are_not_ranked():
    found = compare([*many(DATA[:2], METHODS[:2]), on("birds", "proxy_nca", 0.1)])
    assert list(found.ranks[0].ranks) == ["hpl", "proxy_anchor"]
    assert found.notes == ("Not ranked, as some data set lacks them: proxy_nca.",)
    found = compare([on("birds", "hpl", 0.5), on("cars", "proxy_nca", 0.5)])
    assert found.ranks == ()
    assert "fewer than two methods" in found.notes[0]


def test_two_studies_of_one_method_have_no_rank():
    found = compare([*many(DATA[:2]), on("cars", "hpl", 0.5, name="again")])
    assert found.ranks == ()
    assert "hpl has several studies on cars" in found.notes[0]
