"""LaTeX tables: escaped, the best in bold, with interval and letters."""

import re

from hsearch.report.comparison import compare
from hsearch.report.latex import escaped, latex
from tests.report.made_reproductions import made_entrant
from tests.report.test_comparison import many
from tests.report.test_leaderboard import three


def test_the_best_is_bold_and_names_are_escaped():
    text = latex(compare(three()))
    assert r"\textbf{hpl} & $\mathbf{0.7080 \pm 0.0104}$ &  &  &  & a & yes \\" in text
    (line,) = {line for line in text.splitlines() if line.startswith(r"proxy\_nca & $0.5100")}
    assert line == r"proxy\_nca & $0.5100 \pm 0.0124$ & 0.1980 & $< 0.001$ & $< 0.001$ & b & yes \\"
    floor = r"frozen backbone, no training & $0.2000$ & 0.5080 & $< 0.001$ & $< 0.001$ &  &  \\"
    assert floor in text
    assert "Better than not training at all: yes for hpl, proxy\\_anchor, proxy\\_nca." in text
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 2


def test_one_run_has_no_interval():
    assert r"$\mathbf{0.5000}$" in latex(compare([made_entrant("hpl", [0.5])]))


def test_every_line_has_the_columns_of_its_table():
    text = latex(compare(many(("birds", "cars", "shoes"))))
    for align, body in re.findall(r"\\begin{tabular}{(\w+)}(.*?)\\end{tabular}", text, re.DOTALL):
        for line in body.splitlines():
            if line.endswith(r"\\"):
                assert line.count(" & ") == len(align) - 1


def test_special_characters_are_printed_as_they_are():
    assert escaped(r"a_b & 5 % \x{}~^#$") == (
        r"a\_b \& 5 \% \textbackslash{}x\{\}\textasciitilde{}\textasciicircum{}\#\$"
    )
