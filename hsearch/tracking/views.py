"""Views of MLflow's list of runs: which runs, columns and charts a link opens.

MLflow's page shows no metric by itself. It keeps views as tags of the experiment, offers them under
`Views`, and opens the one that a link names; a link alone cannot say which columns are seen.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hsearch.tracking.points import TEST, TRIALS, VAL, VAL_FLOOR, VAL_SEM
from hsearch.tracking.projection import ID_TAG, KEY_TAG, STUDY

TAG = "mlflow.sharedViewState."

_ARROW = 14
"""Pixels of the arrow at the column that sorts."""
_SCORES, _SIDE_BY_SIDE = "Scores", "Side by side"


class View(NamedTuple):
    """One view of an experiment.

    Attributes:
        key: Its name in a link.
        title: Its name in MLflow's menu `Views`.
        state: What MLflow's page reads.
    """

    key: str
    title: str
    state: Mapping[str, object]

    def tag(self) -> tuple[str, str]:
        """Returns key and value of the experiment's tag."""
        value = {"name": self.title, "createdAt": 0, "state": json.dumps(self.state)}
        return TAG + self.key, json.dumps(value)

    def page(self, address: str, experiment: str, *, charts: bool = False) -> str:
        """Returns the link that opens it.

        Args:
            address: Address of MLflow's server.
            experiment: Id of the experiment.
            charts: Whether charts are shown instead of the table.
        """
        mode = "&compareRunsMode=CHART" if charts else ""
        # Without the workflow MLflow shows its pages for language models at the side.
        return (
            f"{address.rstrip('/')}/#/experiments/{experiment}/runs"
            f"?workflowType=machine_learning{mode}&viewStateShareKey={self.key}"
        )


def studies_view(*, tested: bool) -> View:
    """Returns the view of all studies, the best one first.

    Args:
        tested: Whether one of them was reproduced; otherwise the validation decides.
    """
    order = TEST if tested else VAL
    state = _state(f"tags.`{KEY_TAG}` = '{STUDY}'", order, _study_columns(tested=tested))
    return View("hsearch-studies", "hsearch: studies by score", state)


def trials_view(study: str, study_id: str, knobs: Iterable[str]) -> View:
    """Returns the view of a study's trials and reproductions, the best trial first.

    Args:
        study: Name of the study.
        study_id: See `projection.study_id`.
        knobs: Dotted names of the searched knobs.
    """
    which = f"tags.`{ID_TAG}` = '{study_id}' AND tags.`{KEY_TAG}` != '{STUDY}'"
    columns = [("metrics", VAL), ("metrics", VAL_SEM), ("metrics", TEST)]
    columns += [*(("params", knob) for knob in knobs), ("tags", "hsearch.state")]
    return View(f"hsearch-{study}", f"hsearch: trials of {study}", _state(which, VAL, columns))


def comparison_view(studies: Mapping[str, str], *, tested: bool) -> View:
    """Returns the view of some studies side by side, the first one as the baseline of charts.

    Args:
        studies: MLflow run ids by name of the study.
        tested: Whether one of them was reproduced; otherwise the validation decides.
    """
    runs = list(studies.values())
    key = hashlib.sha256(" ".join(runs).encode()).hexdigest()[:12]
    among = ", ".join(f"'{run}'" for run in runs)
    order = TEST if tested else VAL
    state = _state(f"attributes.run_id IN ({among})", order, _study_columns(tested=tested))
    state["compareRunCharts"] = [*_score_charts(), _side_by_side(runs[0])]
    sections = [_section(_SCORES), {**_section(_SIDE_BY_SIDE), "columns": 1, "cardHeight": 460}]
    state |= {"compareRunSections": sections, "runListHidden": True}
    return View(f"hsearch-compare-{key}", f"hsearch: {' / '.join(studies)}", state)


def _study_columns(*, tested: bool) -> list[tuple[str, str]]:
    """What decides comes first: a page of 1400 pixels has room for the scores and the regime."""
    regime = ("tags", "hsearch.regime")
    names = ("hsearch.method", "hsearch.recipe", "hsearch.backbone", "hsearch.objective")
    tags = [("tags", name) for name in names]
    of_test = [("metrics", f"{TEST}{end}") for end in ("_low", "_high", "_floor")]
    val, floor, trials = (("metrics", name) for name in (VAL, VAL_FLOOR, TRIALS))
    if tested:
        return [("metrics", TEST), val, *of_test, regime, floor, *tags, trials]
    return [val, ("metrics", VAL_SEM), floor, regime, *tags, trials]


def _state(which: str, order: str, columns: Sequence[tuple[str, str]]) -> dict[str, object]:
    """What the page reads, with names of its own.

    Args:
        which: Filter of the runs.
        order: The metric that sorts them, the highest first.
        columns: Kind and name of each.
    """
    widths = {f"{kind}.`{name}`": _width(name) for kind, name in columns}
    ordered = f"metrics.`{order}`"
    widths[ordered] += _ARROW
    return {
        "searchFilter": which,
        "orderByKey": ordered,
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
        "selectedColumns": list(widths),
        "columnOrder": list(widths),
        "columnWidths": widths,
        "runsHiddenMode": "FIRST_20_RUNS",
        "compareRunCharts": _score_charts(),
        "compareRunSections": [_section(_SCORES)],
        "isAccordionReordered": True,  # otherwise sections are sorted by the alphabet
    }


def _width(name: str) -> int:
    """Returns how many pixels a column needs for its name and for a number of six digits."""
    return max(98, 7 * len(name) + 16)


def _section(title: str) -> dict[str, object]:
    """A part of the page of charts, which holds those that name it."""
    return {
        "uuid": title,
        "name": title,
        "display": True,
        "isReordered": True,
        "deleted": False,
        "isGenerated": False,
    }


def _chart(section: str, kind: str, name: str) -> dict[str, object]:
    return {
        "uuid": f"{kind}-{name}",
        "type": kind,
        "metricSectionId": section,
        "runsCountToCompare": 20,
        "deleted": False,
        "isGenerated": False,
    }


def _score_charts() -> list[dict[str, object]]:
    """Charts of what decides: bars of the scores, and how the best one grew with the trials."""
    bars = [
        {**_chart(_SCORES, "BAR", name), "metricKey": name, "dataAccessKey": name}
        for name in (TEST, VAL)
    ]
    curve = {
        **_chart(_SCORES, "LINE", VAL),
        "metricKey": VAL,
        "selectedMetricKeys": [VAL],
        "lineSmoothness": 0,
        "scaleType": "linear",
        "xAxisScaleType": "linear",
        "xAxisKey": "step",
        "selectedXAxisMetricKey": "",
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "range": {},
        "useGlobalXaxisKey": True,
        "useGlobalLineSmoothing": True,
    }
    return [*bars, curve]


def _side_by_side(baseline: str) -> dict[str, object]:
    """A table of all metrics and settings, with a column for every run."""
    return {
        **_chart(_SIDE_BY_SIDE, "DIFFERENCE", "all"),
        "chartName": "Metrics and settings",
        "compareGroups": ["Model metrics", "Parameters"],
        "showChangeFromBaseline": True,
        "showDifferencesOnly": False,
        "baselineColumnUuid": baseline,
    }
