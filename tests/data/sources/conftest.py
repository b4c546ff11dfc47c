import pytest


@pytest.fixture
def data_home(tmp_path, monkeypatch):
    """The folder of prepared data, empty."""
    path = tmp_path / "home"
    monkeypatch.setenv("HSEARCH_DATA", str(path))
    return path
