"""Reproductions in a real MLflow store, looked at through its tables."""

import errno
import json

import pytest

from hsearch.files import write_whole
from hsearch.search.reproduced import ReproductionRecord, ReproductionSpec, RunRecord, run_name
from hsearch.tracking.files import log_files
from hsearch.tracking.reproductions import ReproductionTracker
from hsearch.tracking.tracker import Tracker
from tests.search.made_reproduction import made_test
from tests.search.made_results import made_result
from tests.tracking.made_records import START, MadeStudy, made_study, made_trial


class MadeReproduction:
    """A reproduction whose record is set by the test and which keeps the run ids it is told."""

    def __init__(self, record: ReproductionRecord) -> None:
        self.now = record
        self.ids: dict[int, str] = {}

    def record(self) -> ReproductionRecord:
        return self.now.model_copy(update={"run_ids": dict(self.ids)})

    def note_run(self, run_id: str, number: int) -> None:
        self.ids[number] = run_id


def made_run(spec: ReproductionSpec, number: int, score: float) -> RunRecord:
    return RunRecord(
        number=number,
        seed=1000 + number,
        state="complete",
        folds={fold: made_result(spec.job_of(number, fold), score) for fold in range(4)},
        tested=made_test(score),
        started=START + number,
        ended=START + number + 50,
    )


@pytest.fixture
def study():
    return MadeStudy(made_study(made_trial(0, "complete", (0.5, 0.6, 0.7, 0.8))))


@pytest.fixture
def reproduction(study):
    job = study.now.trials[0].job.model_copy(update={"seed": 1000})
    spec = ReproductionSpec(study="hpl-a1b2c3", trial=0, protocol="cross-validated", job=job)
    waiting = RunRecord(number=1, seed=1001, state="running", started=START)
    runs = (made_run(spec, 0, 0.5), waiting)
    floor = {"map_at_r": 0.1}
    return MadeReproduction(
        ReproductionRecord(
            spec=spec,
            runs=runs,
            floor=floor,
            token="abcd",
            command="hsearch reproduce hpl-a1b2c3 --runs 2 --seed 1000",
        )
    )


@pytest.fixture
def runs(tmp_path):
    """The folder of the runs, with networks and pictures."""
    for number in range(2):
        for fold in range(4):
            place = tmp_path / "runs" / run_name(number) / f"fold-{fold}"
            place.mkdir(parents=True)
            (place / "best.safetensors").write_bytes(b"weights %d" % fold)
            (place / "job.json").write_text("{}")
    pictures = tmp_path / "runs" / run_name(0) / "pictures"
    pictures.mkdir()
    (pictures / "gallery.png").write_bytes(b"a picture")
    return tmp_path / "runs"


def values(query, name):
    rows = query(
        "select m.key, m.value from latest_metrics m join runs r using (run_uuid) "
        f"where r.name = '{name}'"
    )
    return dict(rows)


def artifacts(tmp_path):
    found = (tmp_path / "mlruns").rglob("*")
    return sorted(str(path.relative_to(path.parents[2])) for path in found if path.is_file())


def test_runs_stand_below_the_study_with_scores_networks_and_pictures(
    study, reproduction, uri, runs, query, tmp_path
):
    tracker = ReproductionTracker(study, reproduction, uri, runs)
    assert tracker.bring_up()
    names = query("select name, status from runs order by name")
    run = "run-000 of hpl-a1b2c3 (cross-validated)"
    assert names == [("hpl-a1b2c3", "FINISHED"), (run, "FINISHED")]
    found = values(query, run)
    assert found["test/separated/map_at_r"] == found["score/test"] == pytest.approx(0.495)
    assert found["test/concatenated/map_at_r"] == pytest.approx(0.6)
    assert found["score/test_concatenated"] == pytest.approx(0.6)
    assert found["fold2/val/map_at_r"] == 0.5
    tags = dict(
        query(f"select key, value from tags join runs using (run_uuid) where name = '{run}'")
    )
    (parent,) = query("select run_uuid from runs where name = 'hpl-a1b2c3'")
    assert tags["mlflow.parentRunId"] == parent[0]
    assert tags["hsearch.backbone"] == reproduction.now.spec.job.training.model.backbone
    assert (tags["hsearch.protocol"], tags["hsearch.store"]) == ("cross-validated", "0" * 64)
    assert reproduction.now.command in tags["mlflow.note.content"]
    files = artifacts(tmp_path)
    assert "artifacts/pictures/gallery.png" in files
    assert sum(name.endswith("best.safetensors") for name in files) == 4
    assert reproduction.ids.keys() == {0}


def test_networks_take_their_space_once(study, reproduction, uri, runs, tmp_path):
    """A second name of the file, not a copy; and what replaces the file leaves MLflow's alone."""
    assert ReproductionTracker(study, reproduction, uri, runs).bring_up()
    logged = {path.parent.name: path for path in (tmp_path / "mlruns").rglob("best.safetensors")}
    assert len(logged) == 4
    for fold, path in logged.items():
        assert path.samefile(runs / "run-000" / fold / "best.safetensors")
    assert (runs / "run-000" / "pictures" / "gallery.png").stat().st_nlink == 1, "people may edit"
    write_whole(runs / "run-000" / "fold-1" / "best.safetensors", b"another network")
    assert logged["fold-1"].read_bytes() == b"weights 1"


def test_on_another_disk_networks_are_copied(study, reproduction, uri, runs, tmp_path, monkeypatch):
    def refuse(source, target):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr("os.link", refuse)
    assert ReproductionTracker(study, reproduction, uri, runs).bring_up()
    logged = list((tmp_path / "mlruns").rglob("best.safetensors"))
    assert sorted(path.read_bytes() for path in logged) == [b"weights %d" % n for n in range(4)]


def test_the_study_has_score_interval_and_floor(study, reproduction, uri, runs, query):
    tracker = ReproductionTracker(study, reproduction, uri, runs, models=False)
    assert tracker.bring_up()
    found = values(query, "hpl-a1b2c3")
    assert found["score/test"] == pytest.approx(0.495)
    assert "score/test_low" not in found, "one run has no interval"
    spec = reproduction.now.spec
    both = (reproduction.now.runs[0], made_run(spec, 1, 0.7))
    reproduction.now = reproduction.now.model_copy(update={"runs": both})
    assert tracker.bring_up()
    found = values(query, "hpl-a1b2c3")
    mean = reproduction.now.means("separated")["map_at_r"]
    assert found["score/test"] == pytest.approx(mean.mean, rel=1e-5)
    assert found["score/test_low"] == pytest.approx(mean.low, rel=1e-5)
    assert found["score/test_high"] == pytest.approx(mean.high, rel=1e-5)
    joined = reproduction.now.means("concatenated")["map_at_r"]
    assert found["score/test_concatenated"] == pytest.approx(joined.mean, rel=1e-5)
    assert found["score/test_floor"] == 0.1
    assert found["score/val"] == pytest.approx(0.65)  # that of the search stays
    assert sorted(found)[0] == "score/test"
    assert len(found) <= 12


def test_all_metrics_of_the_test_are_a_table(study, reproduction, uri, runs, tmp_path):
    tracker = ReproductionTracker(study, reproduction, uri, runs, models=False)
    assert tracker.bring_up()
    (file,) = (tmp_path / "mlruns").rglob("metrics/test.json")
    table = json.loads(file.read_text())
    rows = {row[0]: dict(zip(table["columns"], row, strict=True)) for row in table["data"]}
    assert rows.keys() == reproduction.now.means("separated").keys()
    assert rows["map_at_r"]["separated mean"] == pytest.approx(0.495)
    assert rows["map_at_r"]["concatenated mean"] == pytest.approx(0.6)
    assert (rows["map_at_r"]["separated low"], rows["map_at_r"]["floor"]) == (None, 0.1)


def test_less_is_better_in_violations_and_the_score_says_so(study, reproduction, uri, runs, query):
    job = reproduction.now.spec.job.model_copy(update={"objective": "h_violations"})
    spec = reproduction.now.spec.model_copy(update={"job": job})
    both = []
    for number, value in enumerate((0.3, 0.5)):
        tested = made_test(0.5).model_copy(
            update={"models": ({"h_violations": value},) * 4, "concatenated": None}
        )
        both.append(made_run(spec, number, 0.5).model_copy(update={"tested": tested}))
    floor = {"h_violations": 0.9}
    changed = {"spec": spec, "runs": tuple(both), "floor": floor}
    reproduction.now = reproduction.now.model_copy(update=changed)
    assert ReproductionTracker(study, reproduction, uri, runs, models=False).bring_up()
    found = values(query, "hpl-a1b2c3")
    assert found["score/test"] == pytest.approx(0.6)
    assert found["score/test_floor"] == pytest.approx(0.1)
    assert found["score/test_low"] < 0.6 < found["score/test_high"]


def test_the_list_of_studies_is_sorted_by_the_test_once_there_is_one(
    study, reproduction, uri, runs, query
):
    view = "select value from experiment_tags where key = 'mlflow.sharedViewState.hsearch-studies'"

    def order():
        ((value,),) = query(view)
        return json.loads(json.loads(value)["state"])["orderByKey"]

    assert Tracker(study.record, study.note_run, uri).close(60)
    assert order() == "metrics.`score/val`"
    ReproductionTracker(study, reproduction, uri, runs, models=False).bring_up()
    assert order() == "metrics.`score/test`"
    assert Tracker(study.record, study.note_run, uri).close(60)
    assert order() == "metrics.`score/test`"


def test_a_second_tracker_writes_nothing_twice(study, reproduction, uri, runs, contents, tmp_path):
    ReproductionTracker(study, reproduction, uri, runs).bring_up()
    before, files = contents(), artifacts(tmp_path)
    assert ReproductionTracker(study, reproduction, uri, runs).bring_up()
    assert (contents(), artifacts(tmp_path)) == (before, files)


def test_the_search_and_its_reproduction_share_the_studys_run(
    study, reproduction, uri, runs, query
):
    assert Tracker(study.record, study.note_run, uri).close(60)
    ReproductionTracker(study, reproduction, uri, runs, models=False).bring_up()
    assert Tracker(study.record, study.note_run, uri).close(60)
    names = [name for (name,) in query("select name from runs order by name")]
    assert names == [
        "hpl-a1b2c3",
        "run-000 of hpl-a1b2c3 (cross-validated)",
        "trial-000 of hpl-a1b2c3",
    ]
    assert "score/test" in values(query, "hpl-a1b2c3")


def test_an_absent_server_is_told_and_made_good_later(study, reproduction, uri, runs, query):
    absent = ReproductionTracker(study, reproduction, "http://127.0.0.1:9", runs)
    assert not absent.bring_up()
    assert absent.behind is not None
    assert "cannot be reached" in absent.behind
    assert ReproductionTracker(study, reproduction, uri, runs).bring_up()
    assert len(query("select * from runs")) == 2


def test_one_that_was_begun_anew_takes_the_place_of_the_old_one(
    study, reproduction, uri, runs, query
):
    first = reproduction.now.model_copy(
        update={"runs": tuple(made_run(reproduction.now.spec, n, 0.5) for n in range(2))}
    )
    reproduction.now = first
    assert ReproductionTracker(study, reproduction, uri, runs).bring_up()
    again = {
        "runs": (made_run(first.spec, 0, 0.9),),
        "token": "efgh",
        "floor": {"map_at_r": 0.2},
    }
    reproduction.now = first.model_copy(update=again)
    (runs / run_name(0) / "fold-0" / "best.safetensors").write_bytes(b"other weights")
    assert ReproductionTracker(study, reproduction, uri, runs).bring_up()
    active = "select name, run_uuid from runs where lifecycle_stage = 'active' order by name"
    names = query(active)
    assert [name for name, _ in names] == ["hpl-a1b2c3", "run-000 of hpl-a1b2c3 (cross-validated)"]
    shown = query(
        "select value from latest_metrics where key = 'test/separated/map_at_r' and "
        f"run_uuid = '{names[1][1]}'"
    )
    assert shown == [(pytest.approx(0.895),)]
    found = values(query, "hpl-a1b2c3")
    assert found["score/test"] == pytest.approx(0.895)
    assert found["score/test_floor"] == 0.2
    (place,) = runs.parent.glob(f"mlruns/*/*/{names[1][1]}/artifacts/model/fold-0")
    assert (place / "best.safetensors").read_bytes() == b"other weights"


def test_two_protocols_have_their_own_floors(study, reproduction, uri, runs, query):
    assert ReproductionTracker(study, reproduction, uri, runs, models=False).bring_up()
    classic = reproduction.now.spec.model_copy(update={"protocol": "classic"})
    other = {"spec": classic, "runs": (), "floor": {"map_at_r": 0.7}, "token": "ijkl"}
    second = MadeReproduction(reproduction.now.model_copy(update=other))
    assert ReproductionTracker(study, second, uri, runs, models=False).bring_up()
    found = values(query, "hpl-a1b2c3")
    assert found["score/test_floor"] == 0.1
    assert found["score/test_classic_floor"] == 0.7


def test_networks_that_are_lost_keep_no_number_out(study, reproduction, uri, runs, query):
    spec = reproduction.now.spec
    both = tuple(made_run(spec, number, 0.5) for number in range(2))
    reproduction.now = reproduction.now.model_copy(update={"runs": both})
    (runs / run_name(0) / "fold-2" / "job.json").unlink()
    tracker = ReproductionTracker(study, reproduction, uri, runs)
    assert not tracker.bring_up()
    assert tracker.behind is not None
    assert "the networks of run 0 are no longer in" in tracker.behind
    assert len(query("select * from runs where name like 'run-%'")) == 2


def test_without_an_address_nothing_is_written(study, reproduction, runs, tmp_path):
    tracker = ReproductionTracker(study, reproduction, None, runs)
    assert tracker.bring_up()
    assert not (tmp_path / "mlruns").exists()


class TestFiles:
    def test_files_lie_in_the_run_of_every_study(self, study, uri, tmp_path):
        other = made_study(made_trial(0, "complete", (0.1, 0.2, 0.3, 0.4)), name="other")
        page = tmp_path / "compare.html"
        page.write_text("first")
        assert log_files(uri, [study.now, other], "compare", [page]) is None
        logged = sorted((tmp_path / "mlruns").rglob("compare.html"))
        assert [path.read_text() for path in logged] == ["first", "first"]
        page.write_text("second")
        assert log_files(uri, [study.now], "compare", [page]) is None
        assert sorted(path.read_text() for path in logged) == ["first", "second"]

    def test_an_absent_server_is_a_sentence(self, study, tmp_path):
        page = tmp_path / "compare.html"
        page.write_text("first")
        said = log_files("http://127.0.0.1:9", [study.now], "compare", [page])
        assert said is not None
        assert said.endswith("does not have compare: the server cannot be reached.")
