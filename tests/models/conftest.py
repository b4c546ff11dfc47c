import socket

import pytest


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """A machine that reaches no host and has no weights in its caches."""

    def refuse(*args, **kwargs):
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr("hsearch.models.weights.getproxies", dict)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
