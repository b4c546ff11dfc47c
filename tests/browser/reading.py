"""Reading pages as people do: rows and cells by what is seen beside them."""

from selenium.webdriver.common.by import By

from tests.browser.chromium import see, wait_for

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
