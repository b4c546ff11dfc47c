import json
import re
import runpy
import sys
from pathlib import Path

import torch

from tests.cluster.started import Started

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run(name, *arguments, folder):
    """Runs a script in a folder; returns its exit code and what it printed."""
    printed = folder / "printed"
    environment = {"HSEARCH_DATA": str(folder), "OMP_NUM_THREADS": "1"}
    script = (str(BENCHMARKS / name), *map(str, arguments))
    process = Started(run_script, *script, folder=folder, output=printed, environment=environment)
    return process.wait(), printed.read_text()


def run_script(*arguments):
    torch.set_num_threads(1)  # torch is here already, and reads the variable no more
    sys.argv = list(arguments)
    sys.path.insert(0, str(BENCHMARKS))
    runpy.run_path(arguments[0], run_name="__main__")


def write_table(folder, scores):
    entries = [{"knobs": {}, "scores": row, "seconds": [1.0] * 4} for row in scores]
    text = json.dumps({"configurations": entries, "reproductions": []})
    (folder / "made_up.json").write_text(text, encoding="utf-8")


def figures(output):
    """By rule: times fewer fold trainings, median and worst regret; then with folds as numbered."""
    lines = re.findall(r"^([a-zA-Z]\S.*?)((?: +[\d.]+){6})$", output, re.MULTILINE)
    return {name: tuple(map(float, numbers.split())) for name, numbers in lines}


def test_the_race_spends_less_where_folds_differ_more_than_configurations(tmp_path):
    difficulty = (0.3, 0.0, -0.1, -0.2)
    write_table(tmp_path, [[0.5 - 0.02 * c + d for d in difficulty] for c in range(10)])
    code, output = run("fold_race.py", "--quick", "--tables", tmp_path, folder=tmp_path)
    assert code == 0, output
    rules = figures(output)
    assert rules["no race"] == (1.0, 0.0, 0.0) * 2
    assert rules["Optuna WilcoxonPruner"] == (1.0, 0.0, 0.0) * 2
    ours = rules["hsearch's fold race"]
    assert ours[3] > rules["mean against incumbent"][3]
    assert ours[2] == ours[5] == 0.0


def test_a_diverged_configuration_ends_at_its_fold_and_is_never_chosen(tmp_path):
    write_table(tmp_path, [[0.5, 0.4, 0.5, 0.4], [0.4, 0.3, 0.4, 0.3], [0.9, 0.9, 0.9, None]])
    code, output = run("fold_race.py", "--quick", "--tables", tmp_path, folder=tmp_path)
    assert code == 0, output
    assert "(1 diverged)" in output
    assert figures(output)["no race"][4:] == (0.0, 0.0)


def test_recorded_tables_hold_what_the_race_is_judged_by(tmp_path):
    code, output = run("fold_race.py", "--quick", "--check", folder=tmp_path)
    assert code == 0, output
    assert re.search("^fold_race: glyphs ", output, re.MULTILINE)


def test_search_quality_runs(tmp_path):
    picture = tmp_path / "picture.png"
    code, output = run("search_quality.py", "--quick", "--out", picture, folder=tmp_path)
    assert code == 0, output
    assert re.search("^search_quality: ", output, re.MULTILINE)
    assert picture.stat().st_size > 1000


def test_every_loss_is_the_same_as_its_dense_form(tmp_path):
    code, output = run("losses.py", "--quick", folder=tmp_path)
    assert code == 0, output
    assert "has no dense form" not in output
    assert re.search("^losses/", output, re.MULTILINE)


def test_an_evaluation_gives_what_its_peers_give(tmp_path):
    """Each peer's numbers are compared inside; so small, its times say nothing."""
    code, output = run("evaluation.py", "--quick", folder=tmp_path)
    assert code == 0, output
    assert [line.split()[0] for line in output.splitlines() if line[:1].isalpha()] == [
        "flat",
        "hierarchical",
        "sop",
        "ball",
        "evaluation:",
    ]


def test_a_preparation_gives_the_bytes_of_a_plain_loop(tmp_path):
    """They are compared inside; so few, their times say nothing."""
    code, output = run("prepare.py", "--quick", folder=tmp_path)
    assert code == 0, output
    assert re.search("^prepare: ", output, re.MULTILINE)


def test_a_sampler_that_sees_all_of_a_short_study_is_its_own_peer(tmp_path):
    code, output = run("long_studies.py", "--quick", "--check", folder=tmp_path)
    assert code == 0, output
    assert re.search("^long_studies: regret 1.00 x ", output, re.MULTILINE)


def test_one_driver_keeps_virtual_groups_busy(tmp_path):
    picture = tmp_path / "picture.png"
    code, output = run("scale.py", "--quick", "--check", "--out", picture, folder=tmp_path)
    assert code == 0, output
    assert re.search(r"^ +16 +48 ", output, re.MULTILINE), "a line for each number of groups"
    assert re.search("^scale: ", output, re.MULTILINE)
    assert picture.stat().st_size > 1000
