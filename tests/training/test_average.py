"""Averaged weights: what they are, and that networks are validated, kept and tested with them."""

from contextlib import suppress

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from hsearch.evaluation.label_scoring import LabelEmbedded, score_labels
from hsearch.evaluation.scoring import ScoreOptions, score
from hsearch.training.average import WeightAverage
from hsearch.training.checkpoint import load_checkpoint, read_notes, save_checkpoint
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from hsearch.training.score import embed_part, embed_run, job_network, part_rows
from tests.training.runs import Interrupt, StoppedError, checkpoints


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double()


def move(module: nn.Module) -> None:
    """Changes weights and running statistics somehow."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter))
    module(torch.randn(5, 3, dtype=torch.float64))


@pytest.mark.parametrize("decay", [0.3, 0.999])
def test_the_average_is_that_of_the_formula_for_weights_and_statistics(decay):
    module = network()
    average = WeightAverage(module, decay)
    expected = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    for n in range(1, 31):
        move(module)
        average.update()
        now = min(decay, (1 + n) / (10 + n))
        for name, tensor in module.state_dict().items():
            expected[name] = now * expected[name] + (1 - now) * tensor
    counter = "1.num_batches_tracked"
    assert average.state().keys() == expected.keys() - {counter}
    assert not torch.allclose(
        average.state()["1.running_mean"], module.state_dict()["1.running_mean"]
    )
    for name, tensor in average.state().items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-12, atol=1e-12)


def test_the_network_has_the_average_for_a_while_or_for_good_but_keeps_its_counts():
    module = network()
    average = WeightAverage(module, 0.9)
    for _ in range(4):
        move(module)
        average.update()
    own = {name: tensor.clone() for name, tensor in module.state_dict().items()}

    def is_averaged() -> bool:
        now = module.state_dict()
        assert now["1.num_batches_tracked"] == 4
        return all(torch.equal(now[name], tensor) for name, tensor in average.state().items())

    with suppress(StoppedError), average.in_place():
        assert is_averaged()
        raise StoppedError
    assert all(torch.equal(own[name], tensor) for name, tensor in module.state_dict().items())
    average.adopt()
    assert is_averaged()


def test_a_checkpoint_brings_the_average_back(tmp_path):
    module, path = network(), tmp_path / "a.safetensors"
    average = WeightAverage(module, 0.9)
    move(module)
    average.update()
    save_checkpoint(path, module, None, {"epoch": 1}, average)
    other = network()
    fresh = WeightAverage(other, 0.9)
    assert load_checkpoint(path, other, None, fresh)["epoch"] == read_notes(path)["epoch"] == 1
    assert fresh.updates == 1
    for name, tensor in average.state().items():
        assert torch.equal(fresh.state()[name], tensor), name
    assert not torch.equal(fresh.state()["0.weight"], other.state_dict()["0.weight"])


def scores_of(embedded):
    if isinstance(embedded, LabelEmbedded):
        return score_labels(embedded)
    return score(embedded, ScoreOptions())


@pytest.mark.parametrize("method", ["proxy_anchor", "mulcon"])
def test_the_averaged_network_is_kept_and_scores_as_it_was_validated(method, toy_job, tmp_path):
    job = toy_job(method, optimizer__ema=0.9)
    result, kept = checkpoints(job, tmp_path / "run")
    best, at_best = load_file(tmp_path / "run" / "best.safetensors"), kept[result.best_epoch]
    averaged = [name for name in at_best if name.startswith("average.")]
    assert any("running_mean" in name for name in averaged)
    for name in averaged:
        assert torch.equal(best[name.replace("average.", "model.")], at_best[name]), name
    assert any(
        not torch.equal(at_best[n.replace("average.", "model.")], at_best[n]) for n in averaged
    )
    told = scores_of(embed_run(tmp_path / "run", "validation"))
    assert told[job.objective] == result.score
    assert {name: told[name] for name in result.validation if name in told} == {
        name: value for name, value in result.validation.items() if name in told
    }


def test_the_live_weights_would_have_been_validated_otherwise(toy_job, toy_store, tmp_path):
    job = toy_job("proxy_anchor", optimizer__ema=0.99)
    result, _ = checkpoints(job, tmp_path / "run")
    live = job_network(job, toy_store, tmp_path / "run" / "last.safetensors")
    told = scores_of(embed_part(live, job, toy_store, part_rows(job, toy_store, "validation")))
    last = result.history[-1].validation
    assert last is not None
    assert told["map_at_r"] != last["map_at_r"]


def test_the_network_of_an_earlier_stage_is_never_the_best(toy_job, tmp_path):
    job = toy_job("hier", stages__a__share=0.5, stages__a__method__curvature=2.0)
    with pytest.raises(StoppedError):
        train_locally(job, Interrupt(1), tmp_path / "run")
    assert not (tmp_path / "run" / "best.safetensors").exists()
    result = train_locally(job, Report(), tmp_path / "run")
    assert result.best_epoch == 2
    told = scores_of(embed_run(tmp_path / "run", "validation"))
    assert told["map_at_r"] == result.validation["map_at_r"]
