"""Reading pages as people do: rows and cells by what is seen beside them."""

from selenium.webdriver.common.by import By

from tests.browser.chromium import press, see, wait_for

# The table of metrics is two grids side by side that draw only what is in sight. This scrolls to a
# share of the height, where the name must stand, and returns what is seen beside it at the same
# height. The names follow the values one event of scrolling late, so it ends in steps of a pixel.
CELLS_OF_METRIC = """
const [name, share] = arguments;
const links = [...document.querySelectorAll('[role=grid] a[title="Plot chart"]')];
if (!links.length) return null;
const names = links[0].closest('[role=grid]');
const values = [...document.querySelectorAll('[role=grid]')].find(
    grid => names.compareDocumentPosition(grid) & Node.DOCUMENT_POSITION_FOLLOWING);
values.scrollIntoView({block: 'center'});
const wanted = Math.max(0, Math.min(
    Math.round(share * values.scrollHeight) - 90, values.scrollHeight - values.clientHeight - 1));
values.scrollTop = wanted + (values.scrollTop === wanted ? 1 : 0);
const link = links.find(link => link.textContent.trim() === name);
if (!link || Math.abs(names.scrollTop - values.scrollTop) > 1) return null;
const middle = element => {
    const box = element.getBoundingClientRect();
    return (box.top + box.bottom) / 2;
};
const height = middle(link.closest('[style*="top:"]'));  // a long name takes two lines
return [...values.querySelectorAll('span')]
    .filter(cell => Math.abs(middle(cell) - height) < 10)
    .sort((one, other) => one.getBoundingClientRect().left - other.getBoundingClientRect().left)
    .map(cell => cell.textContent.trim());
"""

# MLflow's list draws names and numbers in two grids with the same numbers of rows. This returns the
# text of a cell if all of it, and the beginning of the row's name, are in sight and not covered.
SEEN_CELL = """
const [run, column] = arguments;
const seen = (element, ends) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    const text = range.getBoundingClientRect();
    const middle = (text.top + text.bottom) / 2;
    return ends.map(end => document.elementFromPoint(text[end[0]] + end[1], middle)).every(
        found => found && (element.contains(found) || found.contains(element)));
};
const name = [...document.querySelectorAll('.ag-row a')].find(link => link.textContent === run);
if (!name || !seen(name, [['left', 1]])) return null;
const row = name.closest('.ag-row').getAttribute('row-index');
const cell = [...document.querySelectorAll(`.ag-row[row-index="${row}"] .ag-cell`)].find(
    cell => cell.getAttribute('col-id') === column);
return cell && seen(cell, [['left', 1], ['right', -1]]) ? cell.innerText.trim() : null;
"""


def close_assistant(page):
    """Closes what MLflow opens at the side of the first page that a browser sees."""
    close = "//*[@data-assistant-ui]//button[contains(@aria-label, 'lose')]"
    if page.find_elements(By.XPATH, close):
        press(page, close)


def seen_score(page, run, metric):
    """The number of a run in MLflow's list, which must be in sight without scrolling."""
    return float(seen_cell(page, run, f"metrics.`{metric}`"))


def seen_cell(page, run, column):
    """The text of a run in a column of MLflow's list, in sight without scrolling."""
    what = f"{column} of {run} in sight"
    return wait_for(page, lambda page: page.execute_script(SEEN_CELL, run, column), what)


def row_of(study):
    return f"//*[@role='row'][.//a[.='{study}']]"


def shown_row(page, head):
    """The cells of a row of a plain table, without its head."""
    row = see(page, f"//tr[*[1][normalize-space(.)='{head}']]")
    return [cell.text.strip() for cell in row.find_elements(By.XPATH, "*[position() > 1]")]


def shown_metric(page, name, names):
    """The values of one of the metrics that are compared, of which all names are given."""
    share = sorted(names).index(name) / len(names)
    cells = wait_for(
        page,
        lambda page: page.execute_script(CELLS_OF_METRIC, name, share),
        f"the metric {name}",
    )
    return [float(cell) for cell in cells]


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
