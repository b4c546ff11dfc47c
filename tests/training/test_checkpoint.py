"""Checkpoints restore everything and are never half-written."""

import pytest
import torch
from torch import nn

from hsearch.errors import DatasetError
from hsearch.training.checkpoint import load_checkpoint, read_notes, save_checkpoint


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    for _ in range(3):
        module(torch.randn(5, 3)).square().mean().backward()
        optimizer.step()
    return module, optimizer


def test_round_trip_of_module_optimizer_and_notes(tmp_path):
    module, optimizer = trained()
    save_checkpoint(tmp_path / "a.safetensors", module, optimizer, {"epoch": 3, "list": [1.5]})
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    fresh = torch.optim.Adam(other.parameters(), lr=0.2)
    notes = load_checkpoint(tmp_path / "a.safetensors", other, fresh)
    assert notes == read_notes(tmp_path / "a.safetensors") == {"epoch": 3, "list": [1.5]}
    for key, value in module.state_dict().items():
        assert torch.equal(other.state_dict()[key], value), key
    assert fresh.param_groups[0]["lr"] == 0.2  # the schedule decides it anew
    old, new = optimizer.state_dict()["state"], fresh.state_dict()["state"]
    assert old.keys() == new.keys()
    for index, state in old.items():
        for key, value in state.items():
            assert torch.equal(new[index][key], value), (index, key)


def test_failed_write_keeps_the_old_checkpoint(tmp_path, monkeypatch):
    module, _ = trained()
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, module, None, {"epoch": 1})
    monkeypatch.setattr("os.fsync", lambda descriptor: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match=r"a\.safetensors"):
        save_checkpoint(path, module, None, {"epoch": 2})
    assert read_notes(path) == {"epoch": 1}
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_checkpoint_of_another_network_is_a_sentence(tmp_path):
    module, _ = trained()
    save_checkpoint(tmp_path / "a.safetensors", module, None, {})
    with pytest.raises(DatasetError, match="is of another network"):
        load_checkpoint(tmp_path / "a.safetensors", nn.Linear(3, 4))


def test_missing_and_damaged_files_are_sentences(tmp_path):
    with pytest.raises(DatasetError, match="no checkpoint"):
        read_notes(tmp_path / "none.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"not a checkpoint at all")
    with pytest.raises(DatasetError, match="cannot be read"):
        read_notes(tmp_path / "bad.safetensors")
