"""The critical-difference picture."""

import subprocess
import sys

import pytest

from hsearch.report.comparison import compare
from hsearch.report.picture import rank_picture
from tests.report.test_comparison import many


@pytest.mark.parametrize(
    ("kind", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")]
)
def test_it_is_the_same_file_every_time(kind, start):
    (table, _) = compare(many()).ranks
    picture = rank_picture(table, kind)
    assert picture.startswith(start)
    assert rank_picture(table, kind) == picture


def test_a_critical_difference_beyond_the_line_is_drawn_too():
    (table, _) = compare(many(("birds", "cars"), ("hpl", "proxy_nca"))).ranks
    assert table.critical_difference > 1
    assert rank_picture(table, "svg")


def test_pyplot_is_left_alone():
    program = "import hsearch.report.picture, sys; assert 'matplotlib.pyplot' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
