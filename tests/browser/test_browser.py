"""Two studies as a user sees them: `hsearch ui`, MLflow's pages, and the page of `hsearch compare`.

All in one file, so that parallel test processes do not make the folder of studies twice.
"""

import json
import re
import signal
import socket
import urllib.request
from contextlib import closing, suppress

import pytest
from PIL import Image
from selenium.webdriver.common.by import By

from hsearch.tracking.pages import where_to_look
from tests.browser.chromium import keep_picture, press, requested, see, wait_for
from tests.browser.made_folder import EXPERIMENT, NUM_TRIALS, PROTOCOL, run_of
from tests.browser.reading import (
    close_assistant,
    interval_shown,
    p_shown,
    row_of,
    seen_cell,
    seen_score,
    shown_metric,
    shown_number,
    shown_row,
    spread_shown,
    texts,
)
from tests.browser.sockets import LOOPBACK, listening
from tests.cluster.searches import Command, is_alive, processes_of
from tests.report.test_page import looked_up

STUDIES = f"{EXPERIMENT}, studies by score"
METRICS = ("score/val", "score/test", "score/test_concatenated")


def test_it_serves_on_loopback_alone_until_ctrl_c_and_nothing_remains(made):
    with socket.socket() as other:
        with suppress(OSError):  # already another's, which is as good
            other.bind(("127.0.0.1", 5000))
            other.listen()
        command = Command(made.path, "ui")
        with command.started() as process:
            command.wait_for("Ctrl-C ends it", process)
            (port,) = re.findall(r"UI: http://127\.0\.0\.1:(\d+) ", command.printed())
            assert port != "5000"
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
                assert "MLflow" in answer.read().decode()
            processes = [process.pid, *processes_of(process.pid)]
            assert listening(processes) == {(LOOPBACK, int(port))}
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
    assert command.printed().splitlines()[-1] == "hsearch: interrupted"
    assert not any(map(is_alive, processes))
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", int(port)))


def test_without_a_store_it_says_so_in_a_sentence(tmp_path):
    printed = Command(tmp_path, "ui").run(exit_code=2)
    assert printed.startswith(
        f"hsearch: error: There is no MLflow store {tmp_path}/mlflow.db yet; "
    )
    assert not (tmp_path / "mlflow.db").exists()


@pytest.mark.parametrize(
    ("title", "picture"),
    [
        (f"{EXPERIMENT}, studies by score", "mlflow-studies"),
        ("side by side", "mlflow-side-by-side"),
    ],
)
def test_scores_of_two_studies_are_in_sight_at_once(made, links, laptop, title, picture):
    laptop.get(links[title])
    stored = {study: run_of(made, study).data.metrics for study in made.studies}
    for study in made.studies:
        for metric in ("score/test", "score/val", "score/test_low"):
            assert seen_score(laptop, study, metric) == stored[study][metric]
    keep_picture(laptop, picture)
    close_assistant(laptop)
    for study in made.studies:
        assert seen_score(laptop, study, "score/test_floor") == stored[study]["score/test_floor"]
        assert seen_cell(laptop, study, "tags.`hsearch.regime`") == "full"
    keep_picture(laptop, f"{picture}-alone")
    best = max(made.studies, key=lambda study: stored[study]["score/test"])
    rows = laptop.find_elements(By.XPATH, "//*[@role='row']//a[starts-with(., 'toy-')]")
    assert rows[0].text == best


def test_charts_of_the_named_studies_begin_with_the_scores(made, links, laptop):
    laptop.get(links["side by side as charts"])
    for metric in ("score/test", "score/val"):
        title = see(laptop, f"//*[.='{metric}'][not(*)]")
        assert title.rect["y"] < 900 - 200, "its bars are below"
    for study in made.studies:
        assert see(laptop, f"//*[.='{study}'][not(*)]").rect["y"] < 900
    keep_picture(laptop, "mlflow-charts")


def test_trials_of_a_study_are_listed_by_score_with_their_knobs(made, links, laptop):
    study = made.studies[1]
    laptop.get(links[f"{study}, its trials"])
    for child in made.children(study)[:NUM_TRIALS]:
        assert (
            seen_score(laptop, child, "score/val") == run_of(made, child).data.metrics["score/val"]
        )
    keep_picture(laptop, "mlflow-trials")
    see(laptop, "//*[@role='columnheader'][contains(., 'method.base')]")
    for child in made.children(made.studies[0]):
        assert not laptop.find_elements(By.XPATH, f"//a[.='{child}']")


def test_a_study_s_run_shows_few_metrics_and_a_short_description(made, links, laptop):
    study = made.studies[1]
    laptop.get(links[STUDIES])
    press(laptop, f"//a[.='{study}']")
    see(laptop, "//*[contains(., 'Search of hpl on toy by MAP@R, made with')]")
    metrics = run_of(made, study).data.metrics
    assert len(metrics) <= 12
    see(laptop, f"//*[normalize-space(.)='Metrics ({len(metrics)})']")
    close_assistant(laptop)  # beside it the page is too narrow for more than one column
    for name, value in metrics.items():
        row = see(laptop, f"//*[@role='row'][.//a[.='{name}']]")
        assert float(row.text.split()[-1]) == value
        assert len(row.text.split()[-1]) <= 11, "digits that nobody reads"
        assert row.rect["y"] < 900
    keep_picture(laptop, "mlflow-study")
    press(laptop, "//*[@role='tab'][normalize-space(.)='Artifacts']")
    press(laptop, "//*[self::li or self::div or self::span][normalize-space(.)='metrics']")
    press(laptop, "//*[self::li or self::div or self::span][normalize-space(.)='test.json']")
    see(laptop, "//*[.='concatenated mean']")
    see(laptop, "//*[.='recall_at_4']")
    keep_picture(laptop, "mlflow-table")


def test_two_studies_are_selected_and_compared_with_the_numbers_of_the_store(made, links, page):
    page.get(links[STUDIES])
    for study in made.studies:
        see(page, f"//a[.='{study}']")
    for study in made.studies:
        press(page, f"{row_of(study)}//input[contains(@aria-label, 'toggle row selection')]/..")
    keep_picture(page, "mlflow-selected")
    press(page, "//button[normalize-space(.)='Compare']")
    see(page, "//*[normalize-space(.)='Comparing 2 Runs from 1 Experiment']")
    # What is plotted at first: the score, not a counter.
    see(page, "//*[local-name()='text'][contains(., 'score/val')]")

    names = shown_row(page, "Run Name:")
    assert sorted(names) == sorted(made.studies)
    runs = [run_of(made, name).data for name in names]
    for param in ("method", "objective", "space.optimizer.lr.proxies"):
        assert shown_row(page, param) == [run.params[param] for run in runs]
    keep_picture(page, "mlflow-compare")
    first, second = (run.metrics[METRICS[0]] for run in runs)
    assert abs(first - second) > 0.01, "columns that are swapped would not be noticed"
    for name in METRICS:
        stored = [run.metrics[name] for run in runs]
        assert shown_metric(page, name, runs[0].metrics | runs[1].metrics) == pytest.approx(
            stored, abs=0.00051
        )
        keep_picture(page, f"mlflow-compare-{name.replace('/', '-')}")


def test_the_gallery_is_seen_in_a_run_that_stands_below_its_study(made, links, page):
    requested(page)
    study = made.studies[0]
    run = f"run-000 of {study} ({PROTOCOL})"
    page.get(links[f"{study}, its trials"])
    press(page, f"//a[.='{run}']")
    see(page, f"//h1[contains(., '{run}')] | //h2[contains(., '{run}')]")
    see(page, f"//a[.='{study}']")  # its parent
    see(page, "//*[contains(., 'with seed 1000, cross-validated, on the test images')]")
    keep_picture(page, "mlflow-run")
    press(page, "//*[@role='tab'][normalize-space(.)='Artifacts']")
    press(page, "//*[self::li or self::div or self::span][normalize-space(.)='pictures']")
    press(page, "//*[self::li or self::div or self::span][normalize-space(.)='gallery.png']")
    image = see(page, "//img[@alt='pictures/gallery.png']")
    with Image.open(made.pictures(study) / "gallery.png") as picture:
        size = picture.size
    wait_for(page, lambda _: image.get_property("naturalWidth"), "the picture itself")
    assert (image.get_property("naturalWidth"), image.get_property("naturalHeight")) == size
    assert image.size["width"] > 300
    keep_picture(page, "mlflow-gallery")
    assert {url.partition("/#")[0][:17] for url in requested(page)} == {"http://127.0.0.1:"}


def test_a_server_that_runs_already_is_linked_to_by_ui_tune_and_reproduce(made, links):
    study = made.studies[1]
    address = links[STUDIES].partition("/#")[0]
    printed = Command(made.path, "ui", study, "--tracking-uri", address).run()
    assert printed.splitlines()[0] == f"MLflow is served already: {address}"
    found = dict(re.findall(r"^  (.+): (http\S+)$", printed, re.MULTILINE))
    trials = f"{study}, its trials"
    assert found == {title: links[title] for title in (STUDIES, trials)}
    shown = where_to_look(address, study)
    assert shown == {"MLflow": links[STUDIES], "MLflow, trials": links[trials]}


def test_an_unknown_study_ends_it_before_anything_is_served(made):
    printed = Command(made.path, "ui", made.studies[0], "nobody").run(exit_code=2)
    assert "has no study 'nobody'; valid names: " in printed
    assert "MLflow's UI: " not in printed


@pytest.fixture(scope="module")
def written(made):
    """The folder that `compare --write` has made."""
    printed = Command(made.path, "compare", *made.studies, "--write", "report").run()
    assert "Written: report/compare.html, .tex, .csv and .json" in printed
    return made.path / "report"


def test_the_page_lies_in_the_runs_of_both_studies(made, written):
    logged = list(made.path.glob("mlruns/*/*/*/artifacts/compare/compare.html"))
    assert len(logged) == 2
    page = (written / "compare.html").read_bytes()
    assert {path.read_bytes() for path in logged} == {page}


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


def floor_tests(against):
    """How far a method is above its floor, and both tests of that, as the page shows them."""
    ps = [p_shown(against["p_runs"]), p_shown(against["p_queries"])]
    return [shown_number(against["difference"]["mean"]), *ps]


def test_every_number_is_that_of_the_json(written, shown):
    values = json.loads((written / "compare.json").read_text())
    (board,) = values["leaderboards"]
    for details in shown.find_elements(By.TAG_NAME, "summary"):
        details.click()
    *tables, audit = shown.find_elements(By.TAG_NAME, "table")
    leaders, floors, metrics = tables[::3], tables[1::3], tables[2::3]
    assert len(leaders) == len(floors) == len(metrics) == len(board["tables"]) == 2

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
        beats = [row["against_floor"]["better"] for row in (first, second)]
        expected[0] += [runs[0], "", "", "", first["group"], beats[0], ""]
        expected[1] += [runs[1], distance, *ps, second["group"], beats[1], ""]
        behind = floor_tests(first["against_floor"])
        shown_floor = [floor["name"], shown_number(floor["score"]), "", "", *behind]
        expected.append([*shown_floor, "", "", ""])
        assert texts(found.find_elements(By.CSS_SELECTOR, "tbody tr")) == expected

    for table, found in zip(board["tables"], floors, strict=True):
        rows = [(row["name"], row["against_floor"]) for row in table["rows"]]
        assert texts(found.find_elements(By.CSS_SELECTOR, "tbody tr")) == [
            [
                *(name, against["better"], against["floor"], floor_tests(against)[0]),
                *(interval_shown(against["difference"]), *floor_tests(against)[1:], ""),
            ]
            for name, against in rows
        ]

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
