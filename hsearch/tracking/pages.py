"""Links to pages of MLflow's UI that show studies: by score, with their trials, side by side."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hsearch.errors import ConfigError, did_you_mean
from hsearch.tracking.address import checked_uri, is_server, ui_command, without_credentials
from hsearch.tracking.points import TEST
from hsearch.tracking.projection import EXPERIMENTS, ID_TAG, KEY_TAG, STUDY
from hsearch.tracking.views import View, comparison_view, studies_view, trials_view
from hsearch.tracking.writer import offer_view, open_client

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

MOST_RUNS = 1000


class Page(NamedTuple):
    """A page of MLflow's UI.

    Attributes:
        title: What it shows.
        view: The view of the experiment that it opens.
        experiment: Id of the experiment.
        charts: Whether it shows charts instead of a table.
    """

    title: str
    view: View
    experiment: str
    charts: bool = False

    def link(self, address: str) -> str:
        """Returns the link that opens it.

        Args:
            address: Address of MLflow's server.
        """
        return self.view.page(address, self.experiment, charts=self.charts)


def study_pages(uri: str, studies: Sequence[str] = ()) -> list[Page]:
    """Returns the pages that show studies, and puts the views that they need into MLflow.

    Args:
        uri: MLflow's address, see `checked_uri`.
        studies: Names of studies: their data, the trials of each, and all of them side by side;
            without any, all studies of all data.

    Raises:
        ConfigError: If MLflow does not know one of the studies.
    """
    client = open_client(uri)
    experiments = {each.experiment_id: each for each in _experiments(client)}
    runs = list(_study_runs(client, list(experiments)))
    named = _latest(runs)
    for name in studies:
        if name not in named:
            raise ConfigError(
                f"MLflow ({without_credentials(uri)}) has no study '{name}'; "
                f"{did_you_mean(name, sorted(named))}"
            )
    wanted = {named[name].info.experiment_id for name in studies} or experiments.keys()
    pages = []
    for key in sorted(wanted, key=lambda key: experiments[key].name):
        of_data = [run for run in runs if run.info.experiment_id == key]
        chosen = {n: named[n] for n in studies if named[n].info.experiment_id == key}
        pages += _pages(experiments[key], of_data, chosen)
    for page in pages:
        offer_view(client, experiments[page.experiment], page.view)
    return pages


def _pages(
    experiment: "Experiment", runs: Sequence["Run"], chosen: Mapping[str, "Run"]
) -> list[Page]:
    """The pages of one experiment, of which some studies are chosen."""
    key = str(experiment.experiment_id)
    found = [Page(f"{experiment.name}, studies by score", studies_view(tested=_tested(runs)), key)]
    if len(chosen) > 1:
        ids = {name: str(run.info.run_id) for name, run in chosen.items()}
        side_by_side = comparison_view(ids, tested=_tested(chosen.values()))
        found.insert(0, Page("side by side", side_by_side, key))
        found.insert(1, Page("side by side as charts", side_by_side, key, charts=True))
    for name, run in chosen.items():
        params: list[str] = sorted(run.data.params)
        knobs = [param.removeprefix("space.") for param in params if param.startswith("space.")]
        view = trials_view(name, run.data.tags[ID_TAG], knobs)
        found.append(Page(f"{name}, its trials", view, key))
    return found


def server_links(uri: str, study: str) -> dict[str, str]:
    """Returns links to a study on a server, by what they show; its bare address if they fail.

    Args:
        uri: Address of a server.
        study: Name of the study.
    """
    address = without_credentials(uri)
    try:
        pages = study_pages(uri, [study])
    except Exception:  # noqa: BLE001 (a server that just went away must not hide a result)
        return {"MLflow": address}
    titles = ("MLflow", "MLflow, trials")
    return dict(zip(titles, (page.link(address) for page in pages), strict=True))


def where_to_look(uri: str, study: str) -> dict[str, str]:
    """Returns how to see a study in MLflow: links to a server, or a command, by what they show.

    Args:
        uri: MLflow's address as given.
        study: Name of the study.
    """
    if is_server(uri):
        return server_links(checked_uri(uri), study)
    return {"MLflow": ui_command(uri, study)}


def _experiments(client: "MlflowClient") -> Iterable["Experiment"]:
    token: str | None = None
    while True:
        page: Any = client.search_experiments(
            filter_string=f"name LIKE '{EXPERIMENTS}%'", page_token=token
        )
        yield from page
        if not (token := page.token):
            return


def _study_runs(client: "MlflowClient", experiments: list[str]) -> Iterable["Run"]:
    """Yields the runs of all studies, those that began last first."""
    token: str | None = None
    while experiments:
        page: Any = client.search_runs(
            experiments,
            f"tags.`{KEY_TAG}` = '{STUDY}'",
            max_results=MOST_RUNS,
            order_by=["attributes.start_time DESC"],
            page_token=token,
        )
        yield from page
        if not (token := page.token):
            return


def _latest(runs: Iterable["Run"]) -> dict[str, "Run"]:
    """By name; of several studies that bore the same one, the one that began last."""
    found: dict[str, Run] = {}
    for run in runs:
        found.setdefault(run.data.tags.get("hsearch.study", ""), run)
    return found


def _tested(runs: Iterable["Run"]) -> bool:
    return any(TEST in run.data.metrics for run in runs)
