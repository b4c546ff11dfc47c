"""What MLflow shall show of a study: a pure function of its record.

Because everything follows from the record, a tracker that was killed writes what is missing and
nothing twice.
"""

import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hsearch.search.record import StudyRecord, TrialRecord
from hsearch.spec import FoldJob
from hsearch.tracking.points import Point, legal_key, milliseconds, study_points, trial_points
from hsearch.words import plural

Status = Literal["RUNNING", "FINISHED", "KILLED", "FAILED"]

EXPERIMENTS = "hsearch/"
STUDY = "study"
ID_TAG = "hsearch.id"
KEY_TAG = "hsearch.key"
NOTE = "mlflow.note.content"  # what the UI shows as description
BEST = "best."
PARAM_LENGTH = 6000
TAG_LENGTH = 8000

_STATES = {"lost": "lost in the race"}
_STATUS: dict[str, Status] = {
    "complete": "FINISHED",
    "lost": "KILLED",
    "interrupted": "KILLED",
    "failed": "FAILED",
}


@dataclass(frozen=True)
class RunView:
    """One MLflow run as it shall be.

    Attributes:
        key: `STUDY`, or the number of the trial.
        name: Shown in the UI.
        tags: Among them `ID_TAG` and `KEY_TAG`, by which the run is found again.
        params: By dotted name of the setting.
        points: Of all metrics, in the order of their steps.
        status: Of the run.
        started: In milliseconds since the epoch.
        ended: In milliseconds since the epoch; null while running, or where the record is silent.
    """

    key: str
    name: str
    tags: dict[str, str]
    params: dict[str, str]
    points: list[Point]
    status: Status
    started: int
    ended: int | None


def study_id(record: StudyRecord) -> str:
    """Returns 12 hex digits that tell a study with at least one trial from all others.

    Another study may bear the same name, in another storage or after this one was removed: they
    differ in what they search or in when they began.
    """
    parts = [record.name, record.spec.digest(), str(round(record.trials[0].started))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def experiment_name(job: FoldJob) -> str:
    """Returns the name of the experiment that all studies of a data set share."""
    return f"{EXPERIMENTS}{job.data_name}"


def trial_view(record: StudyRecord, trial: TrialRecord, *, interrupted: bool = False) -> RunView:
    """Returns the run of one trial.

    Args:
        record: Of the study.
        trial: One of its trials.
        interrupted: Whether the search ended before its time; a running trial is then shown so.
    """
    versions = next((fold.versions for fold in trial.folds.values()), {})
    state = "interrupted" if interrupted and trial.state == "running" else trial.state
    tags = {
        **common_tags(record, trial.job, str(trial.number), versions),
        "hsearch.trial": str(trial.number),
        "hsearch.state": _STATES.get(state, state),
        "hsearch.source": trial.source,
        NOTE: f"Trial {trial.number} of {record.name}; train it again with "
        f"`hsearch train --like {record.name}/{trial.number}`.",
        **({"hsearch.reason": trial.reason} if trial.reason else {}),
    }
    return RunView(
        key=str(trial.number),
        name=f"trial-{trial.number:03d} of {record.name}",
        tags=cut(tags, TAG_LENGTH),
        params=cut(job_params(trial.job), PARAM_LENGTH),
        points=sorted(trial_points(trial), key=lambda point: point.step),
        status=_STATUS.get(state, "RUNNING"),
        started=milliseconds(trial.started),
        ended=None if trial.ended is None else milliseconds(trial.ended),
    )


def study_view(record: StudyRecord, status: Status, since: int = 0) -> RunView:
    """Returns the run of the study itself, which shows the best trial so far.

    Args:
        record: Of the study.
        status: Of the run.
        since: The first step of its metrics that is wanted.
    """
    job, best = record.spec.job, record.best
    knobs = {} if best is None else _texts(best.knobs, BEST)
    params = {
        "method": job.method.name,
        "data": job.data,
        "data_digest": job.data_digest,
        "recipe": job.training.recipe,
        "regime": job.training.model.regime,
        "backbone": job.training.model.backbone,
        "splits": job.splits,
        "seed": str(job.seed),
        "objective": job.objective,
        "sampler": record.spec.sampler,
        "race": str(record.spec.race),
        **_texts(record.spec.space, "space."),
    }
    return RunView(
        key=STUDY,
        name=record.name,
        tags=cut(
            {
                **common_tags(record, job, STUDY, record.versions),
                "hsearch.digest": record.spec.digest(),
                NOTE: _study_note(record) + _level_words(record),
                **({"hsearch.command": record.command} if record.command else {}),
                **knobs,
            },
            TAG_LENGTH,
        ),
        params=cut(params, PARAM_LENGTH),
        points=list(study_points(record, since)),
        status=status,
        started=milliseconds(record.trials[0].started),
        ended=None,
    )


def _study_note(record: StudyRecord) -> str:
    job = record.spec.job
    what = f"Search of {job.method.name} on {job.data_name} by {record.score_title}"
    made = f", made with {short_command(record.command)}" if record.command else ""
    return f"{what}{made}."


def short_command(command: str) -> str:
    """Returns a command for a description: its settings are counted, not listed.

    The tag `hsearch.command` has all of them.
    """
    words, short, settings = iter(shlex.split(command)), list[str](), 0
    for word in words:
        if word == "--set":
            next(words, None)
            settings += 1
        else:
            short.append(word)
    more = f" and {plural(settings, 'setting')}" if settings else ""
    return f"`{shlex.join(short)}`{more}"


def _level_words(record: StudyRecord) -> str:
    """What `level_0` and so on in the names of metrics stand for; nothing where that is plain."""
    *coarser, finest = record.level_names or ("",)
    if not coarser:
        return ""
    named = [f"`level_{level}/` is {name}" for level, name in enumerate(coarser)]
    return f"\n\nMetrics by level: {', '.join(named)}; those without a level are of {finest}."


def common_tags(
    record: StudyRecord, job: FoldJob, key: str, versions: Mapping[str, str]
) -> dict[str, str]:
    """Returns the tags that every run has: what it is of, and by what code and data."""
    return {
        ID_TAG: study_id(record),
        KEY_TAG: key,
        "hsearch.study": record.name,
        "hsearch.method": job.method.name,
        "hsearch.data": job.data_name,
        "hsearch.objective": job.objective,
        "hsearch.protocol": "cross-validated",
        "hsearch.backbone": job.training.model.backbone,
        "hsearch.recipe": job.training.recipe,
        "hsearch.regime": job.training.model.regime,
        "hsearch.splits": job.splits,
        **({"hsearch.levels": " > ".join(record.level_names)} if record.level_names else {}),
        "hsearch.store": job.data_digest,
        **_texts(versions, "hsearch.version."),
    }


def job_params(job: FoldJob) -> dict[str, str]:
    """Returns every setting that decides numbers, searched or not, named as in `--set`."""
    values = job.to_dict()
    del values["fold"], values["method"], values["training"]
    return {
        **_texts(values),
        "method": job.method.name,
        **_texts(job.method.knobs, "method."),
        **_texts(job.training.to_dict()),
    }


def _texts(values: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Nested values as texts by dotted name."""
    found: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _texts(value, f"{prefix}{name}.")
        else:
            found[legal_key(f"{prefix}{name}")] = str(value)
    return found


def cut(texts: dict[str, str], length: int) -> dict[str, str]:
    """Returns the texts, each with so many characters at most."""
    return {name: text[:length] for name, text in texts.items()}
