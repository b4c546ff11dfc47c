"""The page stands alone, says what the JSON says, and shows names as they are."""

import json
from html.parser import HTMLParser

import pytest

from hsearch.report.comparison import compare
from hsearch.report.listing import json_text
from hsearch.report.page import page_html
from tests.report.made_reproductions import made_entrant, made_study
from tests.report.test_comparison import many
from tests.report.test_leaderboard import three

VOID = {"meta", "img", "line", "circle"}


class Reader(HTMLParser):
    """Collects tags, numbers by path and text; fails where tags are not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.numbers: dict[str, list[str]] = {}
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag not in VOID:
            self.open.append(tag)
        if "data-value" in found:
            self.numbers.setdefault(found["data-path"] or "", []).append(found["data-value"] or "")

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def looked_up(values: object, path: str) -> object:
    for part in path.split(" "):
        values = values[int(part)] if isinstance(values, list) else values[part]  # type: ignore[index]
    return values


@pytest.mark.parametrize("entrants", [three, lambda: many(("birds", "cars", "shoes"))])
def test_its_numbers_are_those_of_the_json(entrants):
    comparison = compare(entrants())
    reader, values = Reader(page_html(comparison)), json.loads(json_text(comparison))
    for path, found in reader.numbers.items():
        assert {float(number) for number in found} == {looked_up(values, path)}, path
    for number, board in enumerate(values["leaderboards"]):
        for place, table in enumerate(board["tables"]):
            for row in range(len(table["rows"])):
                path = f"leaderboards {number} tables {place} rows {row}"
                assert f"{path} score mean" in reader.numbers
                assert f"{path} against_floor difference mean" in reader.numbers
                assert f"{path} against_floor p_queries" in reader.numbers


def test_it_needs_nothing_but_itself():
    page = page_html(compare(many(("birds", "cars", "shoes"))))
    reader = Reader(page)
    tags = {tag for tag, _ in reader.tags}
    assert not tags & {"link", "script", "iframe", "object", "embed", "base", "form", "a"}
    sources = [
        value for _, found in reader.tags for key, value in found.items() if key in ("src", "href")
    ]
    assert len(sources) == 2
    assert all(source is not None and source.startswith("data:image/svg+xml") for source in sources)
    assert "http" not in page
    assert "url(" not in page
    assert "@import" not in page


def test_it_tells_verdict_floor_audit_and_notes():
    text = Reader(page_html(compare(three()))).text
    assert "hpl leads; proxy_anchor cannot be told apart from it, the others are worse." in text
    assert "frozen backbone, no training" in text
    assert "Better than not training at all: yes for hpl, proxy_anchor, proxy_nca." in text
    assert "All were searched with 3 trials (3 complete)." in text
    entrants = [
        made_entrant("hpl", [0.5, 0.6]),
        made_entrant("proxy_nca", [0.4, 0.7], queries=False),
    ]
    text = Reader(page_html(compare(entrants))).text
    assert "Scores query by query are missing (separated)" in text
    assert "leads, but cannot be told apart from" in text


def test_names_cannot_break_it():
    name = "<script>alert(1)</script>\"'&"
    study = made_study("hpl", name=name)
    entrants = [made_entrant("hpl", [0.5, 0.6], study=study), made_entrant("hpl", [0.5, 0.6])]
    reader = Reader(page_html(compare(entrants)))
    assert name in reader.text
    assert "script" not in {tag for tag, _ in reader.tags}
