"""The page of `hsearch compare` in a browser without a network: its numbers, colours and width."""

import json

import pytest
from selenium.webdriver.common.by import By

from tests.browser.chromium import keep_picture, requested
from tests.cluster.searches import Command
from tests.report.test_page import looked_up


@pytest.fixture(scope="module")
def written(made):
    """The folder that `compare --write` has made."""
    printed = Command(made.path, "compare", *made.studies, "--write", "report").run()
    assert "Written: report/compare.html, .tex, .csv and .json" in printed
    return made.path / "report"


@pytest.fixture
def offline(page):
    page.execute_cdp_cmd("Network.enable", {})
    conditions = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    page.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)
    yield page
    online = {**conditions, "offline": False, "downloadThroughput": -1, "uploadThroughput": -1}
    page.execute_cdp_cmd("Network.emulateNetworkConditions", online)
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.fixture
def shown(written, offline):
    """The page, opened with no message in the console and no request but for itself."""
    requested(offline), offline.get_log("browser")
    address = (written / "compare.html").as_uri()
    offline.get(address)
    yield offline
    assert offline.get_log("browser") == []
    assert requested(offline) == [address]
    assert offline.execute_script("return performance.getEntriesByType('resource').length") == 0


def texts(rows):
    return [[cell.text for cell in row.find_elements(By.TAG_NAME, "td")] for row in rows]


def shown_number(value):
    return f"{value:.4f}"


def interval_shown(estimate):
    return f"{estimate['low']:.4f} to {estimate['high']:.4f}"


def spread_shown(estimate):
    return f"{estimate['mean']:.4f} \N{PLUS-MINUS SIGN} {estimate['mean'] - estimate['low']:.4f}"


def p_shown(p):
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def test_every_number_is_that_of_the_json(written, shown):
    values = json.loads((written / "compare.json").read_text())
    (board,) = values["leaderboards"]
    for details in shown.find_elements(By.TAG_NAME, "summary"):
        details.click()
    *tables, audit = shown.find_elements(By.TAG_NAME, "table")
    leaders, metrics = tables[::2], tables[1::2]
    assert len(leaders) == len(metrics) == len(board["tables"]) == 2

    for table, found in zip(board["tables"], leaders, strict=True):
        first, second = table["rows"]
        (pair,), (floor,) = table["contrasts"], table["floors"]
        expected = [
            [row["name"], shown_number(row["score"]["mean"]), interval_shown(row["score"])]
            for row in (first, second)
        ]
        runs = [str(len(row["runs"])) for row in (first, second)]
        ps = [p_shown(pair["p_runs"]), p_shown(pair["p_queries"])]
        distance = shown_number(pair["difference"]["mean"])
        expected[0] += [runs[0], "", "", "", first["group"], ""]
        expected[1] += [runs[1], distance, *ps, second["group"], ""]
        expected.append([floor["name"], shown_number(floor["score"]), *[""] * 7])
        assert texts(found.find_elements(By.CSS_SELECTOR, "tbody tr")) == expected

    for table, found in zip(board["tables"], metrics, strict=True):
        first, second = table["rows"]
        (floor,) = table["floors"]
        spreads = [
            [
                spread_shown(first["metrics"][name]),
                spread_shown(second["metrics"][name]),
                shown_number(floor["metrics"][name]),
            ]
            for name in first["metrics"]
        ]
        rows = texts(found.find_elements(By.CSS_SELECTOR, "tbody tr"))
        assert [cells for _, *cells in rows] == spreads

    points = [[point["topic"], point["words"]] for point in board["audit"]]
    assert sorted(texts(audit.find_elements(By.CSS_SELECTOR, "tbody tr"))) == sorted(points)
    cells = shown.find_elements(By.CSS_SELECTOR, "[data-path]")
    assert len(cells) > 100
    for cell in cells:
        value = looked_up(values, cell.get_attribute("data-path"))
        assert float(cell.get_attribute("data-value")) == value


@pytest.mark.parametrize(("scheme", "ink"), [("light", 0), ("dark", 255)])
def test_it_is_read_in_light_and_in_the_dark(shown, scheme, ink):
    feature = {"name": "prefers-color-scheme", "value": scheme}
    shown.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    assert shown.execute_script("return getComputedStyle(document.body).color") == (
        f"rgb({ink}, {ink}, {ink})"
    )
    for details in shown.find_elements(By.TAG_NAME, "summary"):
        details.click()
    keep_picture(shown, f"compare-{scheme}", whole=True)


def test_a_telephone_shows_it_without_scrolling_to_the_side(shown):
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    shown.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    assert shown.execute_script("return document.documentElement.scrollWidth") <= 390
    keep_picture(shown, "compare-telephone", whole=True)
