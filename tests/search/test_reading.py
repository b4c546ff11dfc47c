"""What is found in a storage: whole records, for whoever reads, and nothing foreign."""

import json
import subprocess
import sys
import threading
from wsgiref.util import setup_testing_defaults

import optuna
import pytest

from hsearch.errors import ConfigError
from hsearch.search.study import Study, study_names
from tests.search.made_study import (
    formula,
    made_spec,
    read,
    search,
)


def test_other_settings_are_refused_by_name(opened):
    opened().propose()
    with pytest.raises(ConfigError, match=r"job\.seed: 0, now 3; sampler: 'tpe', now 'gp'"):
        opened(made_spec(sampler="gp", seed=3))
    changed = made_spec().job.model_copy(update={"data_digest": "1" * 64})
    with pytest.raises(ConfigError, match="data set 'made' has changed"):
        opened(made_spec().model_copy(update={"job": changed}))


def test_folds_recorded_without_ranks_and_threads_are_read(opened, storage):
    study = opened()
    fold = formula(study.propose().job).to_dict()
    assert (fold.pop("ranks"), fold.pop("threads")) == (1, None)
    study._optuna.set_trial_user_attr(study._key(0), "fold0", fold)
    result = read(storage).trials[0].folds[0]
    assert (result.ranks, result.threads) == (1, None)


def test_a_study_from_before_there_were_objectives_goes_on(opened):
    study = opened()
    spec, job = study.spec.to_dict(), study.propose().job.to_dict()
    for old in (spec["job"], job):
        assert isinstance(old, dict)
        assert old.pop("objective") == "map_at_r"
    study.set_attribute("spec", spec)
    study._optuna.set_trial_user_attr(study._key(0), "job", job)
    assert opened().record().trials[0].job.objective == "map_at_r"
    other = made_spec().job.model_copy(update={"objective": "h_ap"})
    with pytest.raises(ConfigError, match=r"\(job\.objective: 'map_at_r', now 'h_ap'\)"):
        opened(made_spec().model_copy(update={"job": other}))


def test_unknown_foreign_and_newer_studies_are_refused(opened, storage):
    study = opened()
    with pytest.raises(ConfigError, match=r"no study 'sx' in .*Did you mean 's'"):
        Study.load("sx", storage)
    url = f"sqlite:///{storage}"
    foreign = optuna.create_study(study_name="foreign", storage=url)
    foreign.add_trial(optuna.trial.create_trial(value=1.0))
    for open_it in (lambda: opened(name="foreign"), lambda: Study.load("foreign", storage)):
        with pytest.raises(ConfigError, match=r"'foreign' in .* was not made by hsearch"):
            open_it()
    assert study_names(storage) == ["s"]
    study.set_attribute("hsearch", 2)
    with pytest.raises(ConfigError, match=r"newer hsearch \(format 2, this one reads 1"):
        Study.load("s", storage)


def test_other_threads_read_whole_records_while_the_driver_writes(opened):
    study = opened(made_spec(sampler="random"))
    ended, seen = threading.Event(), []

    def look() -> None:
        while not ended.is_set():
            seen.append(study.record())
            study.note_run(str(len(seen)))

    reader = threading.Thread(target=look)
    reader.start()
    search(study, 8)
    ended.set()
    reader.join()
    assert all(trial.job and trial.source for record in seen for trial in record.trials)
    counts = [record.folds_trained for record in seen]
    assert counts == sorted(counts)


def test_optuna_dashboard_opens_the_study(opened, storage):
    from optuna_dashboard import wsgi  # type: ignore[import-untyped]

    study = opened()
    search(study, 6)
    study.propose()
    app = wsgi(f"sqlite:///{storage}")
    answers = []
    environ: dict[str, object] = {"PATH_INFO": "/api/studies/1", "QUERY_STRING": "after=0"}
    setup_testing_defaults(environ)
    body = b"".join(app(environ, lambda status, *_: answers.append(status)))
    shown = json.loads(body)
    assert answers == ["200 OK"]
    assert [trial["state"] for trial in shown["trials"]][:2] == ["Complete", "Complete"]
    assert shown["trials"][6]["state"] == "Running"


def test_reading_a_study_needs_no_torch(opened, storage):
    search(opened(), 2)
    code = (
        "import sys; from hsearch.search.study import Study\n"
        f"assert len(Study.load('s', {storage!r}).record().trials) == 2\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
