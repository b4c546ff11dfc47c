"""What the desk keeps and removes while trials end, on a real record."""

from contextlib import closing
from functools import partial
from pathlib import Path

from hsearch.cluster.desk import Desk
from hsearch.search.study import Study
from hsearch.search.watch import Watch
from tests.cluster.searches import wait_until
from tests.search.made_study import SPACE, fold_of, formula, made_spec


def networks(desk):
    return {int(path.name.removeprefix("trial-")) for path in desk.folder.iterdir()}


def has_networks(desk, wanted):
    return networks(desk) == wanted


def test_only_running_trials_and_the_best_one_have_networks(tmp_path):
    with closing(Study.open("s", str(tmp_path / "s.db"), made_spec(), SPACE)) as study:
        study.take_over()
        desk = Desk(study, 14, tmp_path / "networks", Watch(), lambda: None, lambda: 3)
        bests = set()
        while not desk.is_over or desk.running:
            while (trial := desk.next_trial()) is not None:
                Path(str(desk.path(trial.number, 0))).mkdir(parents=True)
            number = min(desk.running)
            trial = study.record().trials[number]
            result = formula(fold_of(trial, len(trial.folds)))
            desk.enter(number, {"result": result.model_dump_json()})
            best = study.record().best
            kept = {best.number} if best else set()
            wanted = set(desk.running) | kept
            wait_until(partial(has_networks, desk, wanted), str(wanted), 10)
            bests |= kept
        assert len(bests) > 1, "one was beaten"
        assert desk.trouble is None


def test_what_a_killed_driver_left_is_removed_at_the_end(tmp_path):
    with closing(Study.open("s", str(tmp_path / "s.db"), made_spec(), SPACE)) as study:
        study.take_over()
        desk = Desk(study, 1, tmp_path / "networks", Watch(), lambda: None, lambda: 1)
        trial = desk.next_trial()
        assert trial is not None
        Path(str(desk.path(trial.number, 0))).mkdir(parents=True)
        study.fail(trial.number, "diverged")
        again = Desk(study, 1, tmp_path / "networks", Watch(), lambda: None, lambda: 1)
        assert networks(again) == {0}
        again.close()
        assert networks(again) == set()
