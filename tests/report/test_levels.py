"""Bars are as high as the metrics."""

from typing import Any

from hsearch.report.levels import draw_levels
from hsearch.results import metric_names


def test_every_level_has_a_bar_before_and_after():
    before = {name: number / 100 for number, name in enumerate(metric_names(2))}
    after = {name: value + 0.5 for name, value in before.items()}
    axes: list[Any] = draw_levels("title", ("make", "model"), before, after).axes
    first = axes[0]
    assert first.get_title(loc="left") == "MAP@R"
    heights = [bar.get_height() for bar in first.patches]
    names = ["level_0/map_at_r", "map_at_r"]
    assert heights == [*(before[name] for name in names), *(after[name] for name in names)]
    assert [bar.get_height() for bar in axes[-1].patches][:3] == [
        before[name] for name in ("h_ap", "h_asi", "h_ndcg")
    ]


def test_data_with_one_level_have_no_panel_over_all():
    metrics = dict.fromkeys(metric_names(1), 0.5)
    assert len(draw_levels("title", ("class",), metrics, metrics).axes) == 4
