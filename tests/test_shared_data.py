import pytest

from tests import shared_data as module


@pytest.mark.parametrize(
    ("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)]
)
def test_without_real_data_a_test_is_skipped_but_fails_in_ci(tmp_path, monkeypatch, ci, outcome):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(module, "SHARED", tmp_path)
    with pytest.raises(outcome, match=r"needs `\.\./shared/data/birds`"):
        module.shared_data("birds")
    (tmp_path / "birds").mkdir()
    assert module.shared_data("birds") == tmp_path / "birds"
