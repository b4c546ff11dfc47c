"""`hsearch train` and `hsearch evaluate` as a user runs them."""

import json
import os
import signal
from contextlib import closing

import pytest
import timm
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from hsearch.cli.main import main
from hsearch.search.plan import plan_study
from hsearch.search.study import Study
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from hsearch.training.resolve import parse_setting
from tests.cluster.searches import Command, history
from tests.data.toy import tree
from tests.search.made_results import made_result

TINY = [
    *("--set", "image.resize=16", "--set", "image.crop=16", "--set", "model.embedding_dim=16"),
    *("--set", "batch.size=16", "--set", "schedule.iterations_per_epoch=4"),
]

THREADS = 3  # not what any machine here would choose by itself


def hsearch(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def run(toy_store, tmp_path):
    out = tmp_path / "run"
    command = ["train", "--method", "hpl", "--data", toy_store.path, "--epochs", 2, "--out", out]
    return out, [*command, *TINY]


def test_train_shows_every_epoch_and_writes_the_result(run):
    out, command = run
    result = hsearch(*command, "--set", "method.update_period=3")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("Recipe small (a network from scratch), because most images of ")
    assert lines[1].startswith("hpl on ")
    assert [line.split()[:2] for line in lines[2:5]] == [["epoch", f"{n}/2"] for n in range(3)]
    assert "untrained" in lines[2]
    assert "MAP@R" in lines[3]
    written = json.loads((out / "result.json").read_text())
    assert written["job"]["method"]["knobs"]["update_period"] == 3
    assert written["job"]["training"]["recipe"] == "small"
    assert f"{written['score']:.4f}" in result.output
    assert sorted(p.name for p in out.iterdir() if not p.name.startswith(".")) == [
        "best.safetensors", "job.json", "result.json",
    ]  # fmt: skip


def test_another_objective_decides_and_is_shown(run):
    out, command = run
    result = hsearch(*command, "--objective", "r_precision")
    assert result.exit_code == 0, result.output
    written = json.loads((out / "result.json").read_text())
    scores = [record["validation"]["r_precision"] for record in written["history"]]
    assert written["job"]["objective"] == "r_precision"
    assert written["score"] == max(scores[1:]) == scores[written["best_epoch"]]
    lines = result.output.splitlines()
    assert f"R-precision {scores[0]:.4f}  P@1 " in lines[2]
    assert f"validation R-precision {written['score']:.4f} at epoch" in result.output
    assert f"untrained {scores[0]:.4f}." in result.output
    assert "MAP@R" not in result.output


def test_own_photos_are_trained_on_drawn_folds_and_told_of_by_the_names_of_levels(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path / "data"))
    root = tree(tmp_path / "photos", [f"family-{i // 4}/species-{i:02d}" for i in range(16)])
    levels = ("--levels", "family,species")
    prepared = hsearch("data", "prepare", "birds", "--from", root, *levels)
    assert prepared.exit_code == 0, prepared.output
    command = ["train", "--method", "supcon", "--data", "birds", "--out", tmp_path / "run", *TINY]
    result = hsearch(*command, "--epochs", 1, "--objective", "level_0/map_at_r")
    assert result.exit_code == 0, result.output
    assert "stratified splits, seed 0" in result.output.splitlines()[0]
    assert "MAP@R at family" in result.output.splitlines()[1]
    assert "validation MAP@R at family 0." in result.output
    assert "level_0" not in result.output
    job = json.loads((tmp_path / "run" / "job.json").read_text())
    assert job["splits"] == "stratified"
    table = hsearch("evaluate", tmp_path / "run", "--on", "test")
    assert "METRIC       FAMILY  SPECIES  ALL LEVELS" in table.output
    page = json.loads(hsearch("evaluate", tmp_path / "run", "--on", "test", "--json").output)
    assert page["levels"] == ["family", "species"]
    assert "level_0/map_at_r" in page["metrics"]


def test_evaluate_scores_validation_and_test_classes_at_every_level(run):
    out, command = run
    hsearch(*command)
    scored = {}
    for part in ("validation", "test"):
        result = hsearch("evaluate", out, "--on", part, "--json")
        assert result.exit_code == 0, result.output
        scored[part] = json.loads(result.output)["metrics"]
    kept = json.loads((out / "result.json").read_text())["validation"]
    assert {key: scored["validation"][key] for key in kept} == pytest.approx(kept)
    assert "level_0/map_at_r" in scored["test"]
    table = hsearch("evaluate", out)
    assert "MAP@R" in table.output
    assert f"{kept['map_at_r']:.4f}" in table.output


def test_a_run_needs_its_first_weights_no_more(run, tmp_path, monkeypatch):
    out, command = run
    network = timm.create_model("test_resnet", num_classes=0, output_stride=8)
    save_file(network.state_dict(), tmp_path / "first.safetensors")
    monkeypatch.chdir(tmp_path)
    trained = hsearch(*command, "--set", "model.weights=first.safetensors")
    assert trained.exit_code == 0, trained.output
    (tmp_path / "first.safetensors").unlink()
    monkeypatch.chdir("/")
    scored = hsearch("evaluate", out)
    assert scored.exit_code == 0, scored.output


def test_dry_run_prints_every_setting_and_writes_nothing(run):
    out, command = run
    result = hsearch(*command, "--dry-run", "--set", "image.scale=0.5,1")
    assert result.exit_code == 0, result.output
    job = json.loads(result.output)
    assert job["training"]["image"]["scale"] == [0.5, 1.0]
    assert job["method"]["knobs"]["num_coarse"] == 10
    assert not out.exists()


def test_a_setting_given_twice_is_refused(run):
    _, command = run
    result = hsearch(*command, "--set", "schedule.epochs=9")
    assert result.exit_code == 2
    assert "'schedule.epochs' is given twice" in result.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--method", "hlp"], "Did you mean 'hpl'"),
        (["--method", "hpl", "--set", "method.update_perod=3"], "Did you mean 'update_period'"),
        (["--method", "hpl", "--set", "method.base"], "must look like a.b=c"),
        (["--method", "hpl", "--data", "carz"], "no prepared data 'carz'"),
        (["--method", "hpl", "--recipe", "huge"], "Unknown recipe 'huge'"),
        (["--method", "hpl", "--set", "model.backbone=resnet5"], "no backbone called 'resnet5'"),
        (["--method", "hpl", "--set", "model.weights=no.safetensors"], "there is no file"),
        (["--method", "hpl", "--objective", "map"], "Unknown objective 'map'"),
        (["--method", "hpl", "--objective", "level_2/map_at_r"], "did you mean 'map_at_r'"),
        (["--method", "hpl", "--workers", "7"], "multiple of the number of workers"),
        (
            ["--method", "happier", "--set", "method.alpha=-1"],
            "`alpha` of happier must be above 0, but got -1.",
        ),
    ],
)
def test_wrong_input_is_one_sentence_and_leaves_nothing(arguments, sentence, toy_store, tmp_path):
    data = [] if "--data" in arguments else ["--data", toy_store.path]
    out = tmp_path / "run"
    result = hsearch("train", *arguments, *data, "--out", out, *TINY)
    assert result.exit_code == 2, result.output
    assert sentence in result.output
    assert "Traceback" not in result.output
    assert not out.exists()


@pytest.mark.parametrize("further", [[], ["--dry-run"]])
def test_a_knob_out_of_range_is_found_before_anything_is_said(
    further, toy_store, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    settings = ["--set", "method.num_lcas=0", *further]
    result = hsearch("train", "--method", "hier", "--data", toy_store.path, *TINY, *settings)
    assert result.exit_code == 2
    assert result.output == ("hsearch: error: `num_lcas` of hier must be at least 1, but got 0.\n")
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_shows_the_knobs_of_the_recipe(toy_store):
    recipe = ["--recipe", "happier/dyml-animal", "--dry-run"]
    result = hsearch("train", "--method", "happier", "--data", toy_store.path, *recipe)
    assert json.loads(result.output)["method"]["knobs"]["clustering_weight"] == 0.5


def test_a_loss_of_zero_is_told_by_its_cause(run):
    other = {"hpl": "triplet", "batch.size=16": "batch.size=8"}
    command = [other.get(part, part) for part in run[1]]
    result = hsearch(*command, "--set", "batch.per_class=1")  # 8 of 9 classes, so no pair
    assert result.exit_code == 0, result.output
    assert "Warning: the loss was 0 in every step of epoch 1: the batches hold no" in result.output
    assert "see batch.per_class" in result.output
    assert "learning rates" not in result.output


def test_evaluate_without_a_run_is_a_sentence(tmp_path):
    result = hsearch("evaluate", tmp_path)
    assert result.exit_code == 2
    assert "not a folder that `hsearch train` has written" in result.output


@pytest.fixture(scope="module")
def study(toy_store, tmp_path_factory):
    """A study whose trial 0 has a real result of fold 1 and made ones elsewhere; trial 1 runs."""
    given = [text for text in TINY if text != "--set"]
    settings = {**dict(parse_setting(text) for text in given), "schedule.epochs": 2}
    plan = plan_study(
        method="proxy_nca", data=str(toy_store.path), recipe="small", settings=settings, seed=5
    )
    folder = tmp_path_factory.mktemp("study")
    storage = str(folder / "studies.db")
    with closing(Study.open("mine", storage, plan.spec, plan.space)) as record:
        trial = record.propose()
        for fold in range(4):
            job = trial.job.model_copy(update={"fold": fold})
            if fold == 1:
                before = torch.get_num_threads()
                torch.set_num_threads(THREADS)
                result = train_locally(job, Report(), folder / "recorded")
                torch.set_num_threads(before)
            elif fold == 3:
                result = made_result(job, 0.123456).model_copy(update={"ranks": 2, "threads": 1})
            else:
                result = made_result(job, 0.123456)
            record.record_fold(trial.number, result)
        record.propose()
    return storage


@pytest.mark.parametrize("which", ["best", "0"])
def test_like_trains_a_recorded_trial_again_with_the_same_score(study, tmp_path, which):
    out = tmp_path / "again"
    result = hsearch(
        "train", "--like", f"mine/{which}", "--storage", study, "--fold", 1, "--out", out
    )
    assert result.exit_code == 0, result.output
    assert "The score is exactly the recorded one of trial 0." in result.output
    written = json.loads((out / "result.json").read_text())
    assert (written["ranks"], written["threads"]) == (1, THREADS), "as it was recorded"
    job = json.loads((out / "job.json").read_text())
    assert (job["seed"], job["fold"], job["method"]["name"]) == (5, 1, "proxy_nca")


def test_like_tells_another_score_and_what_it_was_recorded_with(study, tmp_path):
    result = hsearch("train", "--like", "mine/0", "--storage", study, "--out", tmp_path / "again")
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert "differs from the recorded 0.1235 of trial 0 by" in words
    assert "recorded with torch 2.15.0" in words or "rounds otherwise" in words
    several = hsearch(
        "train", "--like", "mine/0", "--fold", 3, "--storage", study, "--out", tmp_path / "several"
    )
    words = " ".join(several.output.split())
    assert "was recorded with 2 ranks, so that the score may differ by rounding with 1." in words
    assert "2 ranks." in words
    other = hsearch("train", "--like", "mine/1", "--storage", study, "--out", tmp_path / "other")
    assert "The study has no score of trial 1 on fold 0." in other.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--like", "mine"], "must be named STUDY/NUMBER or STUDY/best"),
        (["--like", "mine/2"], "has no trial '2'; valid names: 0, 1, best."),
        (["--like", "mini/best"], "Did you mean 'mine'?"),
        (["--like", "mine/best", "--epochs", "3"], "so --epochs is decided already"),
        (["--like", "mine/best", "--seed", "0"], "so --seed is decided already"),
        (["--like", "mine/best", "--objective", "ap"], "so --objective is decided already"),
        (["--like", "mine/best", "--method", "hpl"], "so --method is decided already"),
        (["--like", "mine/best", "--set", "method.scale=1"], "so --set is decided already"),
        ([], "--method NAME, or --like STUDY/TRIAL"),
    ],
)
def test_like_refuses_what_cannot_be(arguments, sentence, study, tmp_path):
    result = hsearch("train", *arguments, "--storage", study, "--out", tmp_path / "again")
    assert result.exit_code == 2, result.output
    assert sentence in result.output
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_keeps_whole_epochs_and_the_same_command_goes_on(run, workers):
    out, command = run
    long = [str(part) for part in command]
    long[long.index("--epochs") + 1] = "4"
    training = Command(out.parent, *long, f"--workers={workers}")
    training.breakpoint.set(epoch=3, step=2)
    with training.started() as process:
        training.wait_for_breakpoint(process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the whole group gets it
        process.wait(60)
    assert process.returncode == 130, training.printed()
    assert "Traceback" not in training.printed()
    assert "Run the same command again" in training.printed()
    assert len(history(out / "last.safetensors")) == 3
    training.breakpoint.clear()
    again = training.run()
    epochs = [line.split()[1] for line in again.splitlines() if line.startswith("epoch")]
    assert epochs == ["3/4", "4/4"]
    records = json.loads((out / "result.json").read_text())["history"]
    assert [record["epoch"] for record in records] == list(range(5))
