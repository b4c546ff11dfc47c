"""`hsearch recipes`: all of them with a line each, and each as YAML that can be used again."""

import json

import pytest
from click.testing import CliRunner

from hsearch.cli.main import main
from hsearch.recipes import available_recipes, load_recipe, read_recipe


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["recipes", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_list_has_a_line_for_each():
    lines = run().splitlines()
    for name in available_recipes():
        about = read_recipe(name).about
        assert any(line.split()[:1] == [name] and line.endswith(about) for line in lines), name
    listed = json.loads(run("--json"))
    assert {each["name"] for each in listed} == set(available_recipes())


@pytest.mark.parametrize("name", available_recipes())
def test_what_is_printed_serves_as_a_recipe_of_ones_own(name, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(run(name))
    mine, printed = read_recipe(str(path)), read_recipe(name)
    assert load_recipe(str(path)).model_copy(update={"recipe": name}) == load_recipe(name)
    for part in (
        "about",
        "also_for",
        "splits",
        "trials",
        "sampler",
        "ranges",
        "methods",
        "regimes",
    ):
        assert getattr(mine, part) == getattr(printed, part), part


def test_comments_tell_source_licence_weights_and_what_the_backbone_brings(monkeypatch, tmp_path):
    monkeypatch.setenv("HSEARCH_WEIGHTS", str(tmp_path))
    monkeypatch.setattr("hsearch.models.backbone.is_cached", lambda name: False)
    comments = [line for line in run("photos-dinov3").splitlines() if line.startswith("# ")]
    text = "\n".join(comments)
    assert "no open-source licence" in text
    assert "licence of its weights: dinov3-license; they are not on this machine yet" in text
    assert "put vit_small_patch16_dinov3.lvd1689m.safetensors or " in text
    assert "image.crop=256" in text
    (tmp_path / "vit_small_patch16_dinov3.safetensors").write_bytes(b"")
    assert "; they are at hand." in run("photos-dinov3")
    page = json.loads(run("photos-dinov3", "--json"))
    assert (page["licence"], page["weights_at_hand"]) == ("dinov3-license", True)
    assert page["from_backbone"]["image.interpolation"] == "bicubic"
    assert "powerful-benchmarker" in run("mlrc/sop")
    assert "from scratch; no weights are needed" in run("small")


def test_an_unknown_one_is_a_sentence():
    result = CliRunner().invoke(main, ["recipes", "photo"])
    assert result.exit_code == 2
    assert "Did you mean 'photos'" in result.stderr
    assert result.stderr.count("\n") == 1
