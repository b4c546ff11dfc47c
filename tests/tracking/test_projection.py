from hsearch.search.record import TrialState
from hsearch.spec import FoldJob
from hsearch.tracking.projection import NOTE, experiment_name, study_id, study_view, trial_view
from tests.tracking.made_records import JOB, made_study, made_trial

SCORES = (0.5, 0.6, 0.55, 0.62)
DONE = made_trial(7, "complete", SCORES)
LOST = made_trial(8, "lost", SCORES[:1], reason="behind trial 7")


def test_a_trial_s_params_are_all_settings_by_the_names_that_a_user_sets_them_by():
    params = trial_view(made_study(DONE), DONE).params
    assert params["method"] == "hpl"
    assert params["method.num_coarse"] == "11"
    assert params["optimizer.lr.backbone"] == "0.01"
    assert params["model.backbone"] == "test_resnet"
    assert params["schedule.epochs"] == "10"
    assert params["image.scale"] == "[0.6, 1.0]"
    assert {"data", "data_digest", "splits", "seed", "recipe"} <= params.keys()
    assert params["objective"] == "map_at_r"
    assert "fold" not in params


def test_states_are_told_in_words_and_as_the_run_s_status():
    cases: dict[TrialState, tuple[str, str]] = {
        "running": ("running", "RUNNING"),
        "complete": ("complete", "FINISHED"),
        "lost": ("lost in the race", "KILLED"),
        "failed": ("failed", "FAILED"),
    }
    for state, (words, status) in cases.items():
        trial = made_trial(7, state, SCORES if state == "complete" else SCORES[:1], reason="so")
        view = trial_view(made_study(trial), trial)
        assert (view.tags["hsearch.state"], view.status) == (words, status)
        assert (view.ended is None) == (state == "running")


def test_a_trial_can_be_found_by_study_method_data_and_number():
    view = trial_view(made_study(DONE, LOST), LOST)
    assert view.name == "trial-008 of hpl-a1b2c3"
    expected = {
        "hsearch.study": "hpl-a1b2c3",
        "hsearch.trial": "8",
        "hsearch.method": "hpl",
        "hsearch.data": "made",
        "hsearch.objective": "map_at_r",
        "hsearch.source": "tpe",
        "hsearch.reason": "behind trial 7",
        "hsearch.version.torch": "2.15.0",
    }
    assert expected.items() <= view.tags.items()


def test_the_study_s_run_names_what_is_searched_and_the_best_knobs():
    record = made_study(DONE, LOST)
    job = record.spec.job.model_copy(update={"objective": "h_ap"})
    record = record.model_copy(update={"spec": record.spec.model_copy(update={"job": job})})
    view = study_view(record, "RUNNING")
    assert view.params["objective"] == view.tags["hsearch.objective"] == "h_ap"
    assert view.name == "hpl-a1b2c3"
    assert view.tags["best.method.num_coarse"] == "11"
    expected = {"method": "hpl", "sampler": "tpe", "race": "True", "splits": "disjoint"}
    assert expected.items() <= view.params.items()
    assert view.params["space.method.num_coarse"] == "2 to 1000, log"


def test_the_study_s_run_says_what_its_levels_are():
    plain = study_view(made_study(DONE), "RUNNING")
    assert "hsearch.levels" not in plain.tags
    assert "level" not in plain.tags[NOTE]
    named = made_study(DONE).model_copy(update={"level_names": ("order", "family", "species")})
    view = study_view(named, "RUNNING")
    assert view.tags["hsearch.levels"] == "order > family > species"
    assert view.tags[NOTE].endswith(
        "\n\nMetrics by level: `level_0/` is order, `level_1/` is family; those without a level "
        "are of species."
    )
    assert view.points == plain.points  # names of metrics stay as they are
    flat = made_study(DONE).model_copy(update={"level_names": ("species",)})
    assert study_view(flat, "RUNNING").tags[NOTE] == plain.tags[NOTE]


def test_a_study_begun_anew_under_an_old_name_is_another_one():
    first = made_study(DONE)
    later = made_study(DONE.model_copy(update={"started": DONE.started + 5}))
    assert study_id(first) == study_id(made_study(DONE, LOST))
    assert len({study_id(r) for r in (first, later, made_study(DONE, name="other"))}) == 3


def test_an_endless_reason_is_cut_to_what_mlflow_takes():
    trial = made_trial(0, "failed", reason="x" * 20_000)
    assert len(trial_view(made_study(trial), trial).tags["hsearch.reason"]) == 8000


def test_one_experiment_per_data_set_also_where_it_is_a_file():
    assert experiment_name(JOB) == "hsearch/made"
    path = FoldJob.from_dict({**JOB.to_dict(), "data": "/some/where/birds.arrow"})
    assert experiment_name(path) == "hsearch/birds"


def test_descriptions_have_the_command_without_a_wall_of_settings():
    settings = [f"--set x.y{n}={n}" for n in range(8)]
    command = f"hsearch tune --method hpl --data made {' '.join(settings)} --trials 3"
    record = made_study(DONE).model_copy(update={"command": command})
    view = study_view(record, "RUNNING")
    assert view.tags["mlflow.note.content"] == (
        "Search of hpl on made by MAP@R, made with `hsearch tune --method hpl --data made "
        "--trials 3` and 8 settings."
    )
    assert view.tags["hsearch.command"] == command
    note = trial_view(record, DONE).tags["mlflow.note.content"]
    assert note == (
        "Trial 7 of hpl-a1b2c3; train it again with `hsearch train --like hpl-a1b2c3/7`."
    )


def test_a_study_without_a_command_is_described_without_one():
    view = study_view(made_study(DONE), "RUNNING")
    assert view.tags["mlflow.note.content"] == "Search of hpl on made by MAP@R."
    assert "hsearch.command" not in view.tags


def test_regime_recipe_and_backbone_are_tags_of_every_run():
    record = made_study(DONE)
    expected = {"hsearch.backbone": "test_resnet", "hsearch.recipe": JOB.training.recipe}
    for view in (study_view(record, "RUNNING"), trial_view(record, DONE)):
        assert expected.items() <= view.tags.items()
        assert view.tags["hsearch.regime"] in ("frozen", "lora", "full")
