"""What a user sees of two studies in MLflow's UI, as `hsearch ui` serves it."""

import pytest
from PIL import Image
from selenium.webdriver.common.by import By

from tests.browser.chromium import keep_picture, press, requested, see, wait_for
from tests.browser.made_folder import PROTOCOL, run_of

METRICS = ("mean/test/separated/map_at_r", "mean/test/concatenated/map_at_r", "mean/val/map_at_r")

# The table of metrics is two grids side by side that draw only what is in sight. This scrolls them
# until the wanted name is seen, and returns what is seen beside it at the same height. The names
# follow the values one event of scrolling late, so it ends in steps of a pixel, as a wheel does.
CELLS_OF_METRIC = """
const links = [...document.querySelectorAll('[role=grid] a[title="Plot chart"]')];
if (!links.length) return null;
const names = links[0].closest('[role=grid]');
const values = [...document.querySelectorAll('[role=grid]')].find(
    grid => names.compareDocumentPosition(grid) & Node.DOCUMENT_POSITION_FOLLOWING);
const link = links.find(link => link.textContent.trim() === arguments[0]);
if (!link) {
    const end = values.scrollTop + values.clientHeight >= values.scrollHeight;
    values.scrollTop = end ? 0 : values.scrollTop + values.clientHeight;
    return null;
}
const wanted = parseInt(link.closest('[style*="top:"]').style.top) - 90;
values.scrollTop = wanted + (values.scrollTop === wanted ? 1 : 0);
values.scrollIntoView({block: 'center'});
const middle = element => {
    const box = element.getBoundingClientRect();
    return (box.top + box.bottom) / 2;
};
const height = middle(link);
if (Math.abs(names.scrollTop - values.scrollTop) > 1) return null;
return [...values.querySelectorAll('span')]
    .filter(cell => Math.abs(middle(cell) - height) < 10)
    .sort((one, other) => one.getBoundingClientRect().left - other.getBoundingClientRect().left)
    .map(cell => cell.textContent.trim());
"""


def row_of(study):
    return f"//*[@role='row'][.//a[.='{study}']]"


def shown_row(page, head):
    """The cells of a row of a plain table, without its head."""
    row = see(page, f"//tr[*[1][normalize-space(.)='{head}']]")
    return [cell.text.strip() for cell in row.find_elements(By.XPATH, "*[position() > 1]")]


def shown_metric(page, name):
    cells = wait_for(
        page,
        lambda page: page.execute_script(CELLS_OF_METRIC, name),
        f"the metric {name}",
    )
    return [float(cell) for cell in cells]


def test_two_studies_are_selected_and_compared_with_the_numbers_of_the_store(made, runs_page, page):
    page.get(runs_page)
    for study in made.studies:
        see(page, f"//a[.='{study}']")
    keep_picture(page, "mlflow-runs")
    for study in made.studies:
        press(page, f"{row_of(study)}//input[contains(@aria-label, 'toggle row selection')]/..")
    keep_picture(page, "mlflow-selected")
    press(page, "//button[normalize-space(.)='Compare']")
    see(page, "//*[normalize-space(.)='Comparing 2 Runs from 1 Experiment']")

    names = shown_row(page, "Run Name:")
    assert sorted(names) == sorted(made.studies)
    runs = [run_of(made, name).data for name in names]
    for param in ("method", "objective", "space.optimizer.lr.proxies"):
        assert shown_row(page, param) == [run.params[param] for run in runs]
    keep_picture(page, "mlflow-compare")
    for name in METRICS:
        stored = [run.metrics[name] for run in runs]
        assert stored[0] != pytest.approx(stored[1], abs=0.001), "no difference could be seen"
        assert shown_metric(page, name) == pytest.approx(stored, abs=0.00051)
        keep_picture(page, f"mlflow-compare-{name.replace('/', '-')}")


def test_the_gallery_is_seen_in_a_run_that_stands_below_its_study(made, runs_page, page):
    requested(page)
    study, other = made.studies
    page.get(runs_page)
    see(page, f"//a[.='{other}']")
    press(page, f"{row_of(study)}//button")
    for child in made.children(study):
        see(page, f"//a[.='{child}']")
        assert not page.find_elements(By.XPATH, f"{row_of(child)}//button"), "nothing is below it"
    for child in made.children(other):
        assert not page.find_elements(By.XPATH, f"//a[.='{child}']")
    keep_picture(page, "mlflow-nested")

    run = f"{study}/{PROTOCOL}/run-000"
    press(page, f"//a[.='{run}']")
    see(page, f"//h1[contains(., '{run}')] | //h2[contains(., '{run}')]")
    see(page, f"//a[.='{study}']")  # its parent
    see(page, "//*[contains(., 'trial 2 with seed 1000, on the test classes.')]")
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
