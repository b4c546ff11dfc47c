"""The only place that speaks to MLflow: makes its runs equal to views, writing what is missing."""

import hashlib
import itertools
import json
import logging
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hsearch.tracking.address import artifact_location, database_file, local_artifacts
from hsearch.tracking.points import legal_key
from hsearch.tracking.projection import BEST, ID_TAG, KEY_TAG, STUDY, RunView, Status
from hsearch.tracking.views import View, studies_view

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

METRICS_PER_BATCH = 1000
TEXTS_PER_BATCH = 100
ARTIFACT_TAG = "hsearch.artifact"
NETWORK_SUFFIX = ".safetensors"
TABLES_TAG = "mlflow.loggedArtifacts"

_QUIET = {
    "MLFLOW_CONFIGURE_LOGGING": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    # The tracker tries again by itself, and asks before what arrived.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}

T = TypeVar("T")


@dataclass
class _Known:
    """What a run holds: `steps` has the last step of each metric."""

    run_id: str
    status: Status = "RUNNING"
    params: set[str] = field(default_factory=set)
    tags: dict[str, str] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)


def open_client(uri: str) -> "MlflowClient":
    """Returns a client that prints nothing and gives up soon; takes seconds the first time."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic", "urllib3.connectionpool"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
    warnings.filterwarnings("ignore", module=r"(mlflow|alembic|sqlalchemy)\b")
    from mlflow import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.CRITICAL)  # importing it has set a level
    return MlflowClient(tracking_uri=uri)


class Writer:
    """Writes the runs of one study, knowing what they hold already.

    A writer whose call failed knows no longer what arrived: throw it away and make a new one.

    Args:
        client: See `open_client`.
        uri: The client's address.
        experiment: Name of the experiment; made where it is missing.
        study: The value of `ID_TAG` of all runs of the study.
        noted: Run ids that the record names, which win over others of the same key.
    """

    def __init__(
        self, client: "MlflowClient", uri: str, experiment: str, study: str, noted: set[str]
    ) -> None:
        self._client = client
        self._is_local = database_file(uri) is not None
        self._experiment_entity = _experiment(client, uri, experiment)
        self._experiment = str(self._experiment_entity.experiment_id)
        self._known: dict[str, _Known] = {}
        runs = list(_runs_of(client, self._experiment, study))
        for run in sorted(runs, key=lambda run: run.info.run_id not in noted):
            key = run.data.tags[KEY_TAG]
            if key in self._known:  # a request that timed out and was carried out all the same
                client.delete_run(run.info.run_id)
            else:
                self._known[key] = _known(run)

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def __iter__(self) -> Iterator[str]:
        """Yields the keys of all runs of the study."""
        return iter(list(self._known))

    def tags(self, key: str) -> dict[str, str]:
        """Returns the tags of a run; none if there is no such run."""
        return dict(self._known[key].tags) if key in self._known else {}

    def last_step(self, key: str, metric: str) -> int:
        """Returns the last step of a metric of a run; -1 if it has none."""
        return self._known[key].steps.get(legal_key(metric), -1) if key in self._known else -1

    def remove(self, key: str) -> None:
        """Deletes a run."""
        self._client.delete_run(self._known.pop(key).run_id)

    def status(self, key: str) -> Status:
        """Returns the status of a run; FINISHED if there is none."""
        return self._known[key].status if key in self._known else "FINISHED"

    def write(self, view: RunView) -> str:
        """Brings one run up to its view and returns its id; the status comes last."""
        known = self._known.get(view.key) or self._create(view)
        if view.status == "RUNNING":
            self._set_status(known, view)
        self._log(known, view)
        for stale in [tag for tag in known.tags if tag.startswith(BEST) and tag not in view.tags]:
            self._client.delete_tag(known.run_id, stale)
            del known.tags[stale]
        self._set_status(known, view)
        return known.run_id

    def write_artifact(self, file: str, text: str, digest: str) -> None:
        """Puts a text file into the study's run, unless that content is there already."""
        self._write_text(file, text, ARTIFACT_TAG, digest)

    def write_table(self, file: str, text: str) -> None:
        """Puts a table into the study's run, unless that content is there already.

        MLflow shows a file as a table, and several runs' tables side by side, if a tag says so.
        """
        known = self._known[STUDY]
        tables: list[dict[str, str]] = json.loads(known.tags.get(TABLES_TAG, "[]"))
        entry = {"path": file, "type": "table"}
        if entry not in tables:
            self._set_tag(known, TABLES_TAG, json.dumps([*tables, entry]))
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        self._write_text(file, text, f"{ARTIFACT_TAG}.{file}", digest)

    def _write_text(self, file: str, text: str, tag: str, digest: str) -> None:
        known = self._known[STUDY]
        if known.tags.get(tag) != digest:
            self._client.log_text(known.run_id, text, file)
            self._set_tag(known, tag, digest)

    def offer_studies(self, *, tested: bool) -> None:
        """Puts the view of all studies into the experiment.

        Args:
            tested: Whether one of them was reproduced; otherwise a view that is there stays.
        """
        view = studies_view(tested=tested)
        if tested or view.tag()[0] not in self._experiment_entity.tags:
            offer_view(self._client, self._experiment_entity, view)

    def write_files(
        self, key: str, folder: str, files: Iterable[Path], digest: str = "logged"
    ) -> None:
        """Puts files into a folder of a run's artifacts, unless that content is there already."""
        known = self._known[key]
        tag = f"{ARTIFACT_TAG}.{folder}"
        if known.tags.get(tag) != digest:
            for file in files:
                if not self._is_linked(known.run_id, file, folder):
                    self._client.log_artifact(known.run_id, str(file), folder)
            self._set_tag(known, tag, digest)

    def _set_tag(self, known: _Known, tag: str, value: str) -> None:
        self._client.set_tag(known.run_id, tag, value)
        known.tags[tag] = value

    def _is_linked(self, run_id: str, file: Path, folder: str) -> bool:
        """Puts a network into a run's artifacts without copying it; false where that cannot be.

        Networks are most of what a reproduction leaves, and are replaced but never changed, so that
        a second name of the same file serves as well as a copy. The artifacts of a server, or on
        another disk, are copies.
        """
        if not self._is_local or file.suffix != NETWORK_SUFFIX:
            return False
        place = local_artifacts(str(self._client.get_run(run_id).info.artifact_uri))
        if place is None:
            return False
        target = place / folder / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # MLflow would write a copy into the file of the other name
        try:
            os.link(file, target)
        except OSError:
            return False
        return True

    def _create(self, view: RunView) -> _Known:
        parent = {} if view.key == STUDY else {"mlflow.parentRunId": self._known[STUDY].run_id}
        run = self._client.create_run(
            self._experiment,
            start_time=view.started,
            tags={**view.tags, **parent},
            run_name=view.name,
        )
        self._known[view.key] = _Known(run.info.run_id, tags=dict(view.tags))
        return self._known[view.key]

    def _log(self, known: _Known, view: RunView) -> None:
        from mlflow.entities import Metric, Param, RunTag

        points = [point for point in view.points if point.step > known.steps.get(point.key, -1)]
        params = {key: text for key, text in view.params.items() if key not in known.params}
        tags = {key: text for key, text in view.tags.items() if known.tags.get(key) != text}
        batches: Iterator[tuple[list[Any], ...]] = itertools.zip_longest(
            _chunks([Metric(p.key, p.value, p.time, p.step) for p in points], METRICS_PER_BATCH),
            _chunks([Param(*item) for item in params.items()], TEXTS_PER_BATCH),
            _chunks([RunTag(*item) for item in tags.items()], TEXTS_PER_BATCH),
            fillvalue=[],
        )
        for metrics, some_params, some_tags in batches:
            self._client.log_batch(known.run_id, metrics, some_params, some_tags)
        known.steps.update({point.key: point.step for point in points})
        known.params.update(params)
        known.tags.update(tags)

    def _set_status(self, known: _Known, view: RunView) -> None:
        if known.status == view.status:
            return
        if view.status == "RUNNING":
            self._client.update_run(known.run_id, status=view.status)
        else:
            self._client.set_terminated(known.run_id, view.status, end_time=view.ended)
        known.status = view.status


def offer_view(client: "MlflowClient", experiment: "Experiment", view: View) -> None:
    """Puts a view into an experiment, unless it is there already."""
    key, value = view.tag()
    if experiment.tags.get(key) != value:
        client.set_experiment_tag(experiment.experiment_id, key, value)


def _experiment(client: "MlflowClient", uri: str, name: str) -> "Experiment":
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        made = client.create_experiment(name, artifact_location(uri, name))
        return client.get_experiment(made)
    if experiment.lifecycle_stage == "deleted":  # its name cannot be used for another
        client.restore_experiment(experiment.experiment_id)
    return experiment


def _runs_of(client: "MlflowClient", experiment: str, study: str) -> Iterator["Run"]:
    token: str | None = None
    while True:
        page: Any = client.search_runs(
            [experiment],
            f"tags.`{ID_TAG}` = '{study}'",
            order_by=["attributes.start_time ASC"],
            page_token=token,
        )
        yield from page
        if not (token := page.token):
            return


def _known(run: "Run") -> _Known:
    return _Known(
        run.info.run_id,
        run.info.status,
        set(run.data.params),
        dict(run.data.tags),
        {metric.key: metric.step for metric in run.data.to_proto().metrics},
    )


def _chunks(values: list[T], size: int) -> Iterator[list[T]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
