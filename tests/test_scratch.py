import os
import subprocess
import sys
import tempfile

from hsearch.scratch import make_scratch, scratch


def test_a_folder_lives_as_long_as_its_context(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch("run") as folder:
        (folder / "file").write_text("")
    assert list(tmp_path.iterdir()) == []


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = (
        "import os; from hsearch.scratch import make_scratch as m; m('run'); m('ray'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)})
    assert len(list(tmp_path.iterdir())) == 2
    mine = [make_scratch("run"), make_scratch("run")]
    left = set(tmp_path.iterdir()) - set(mine)
    assert ["ray" in path.name for path in left] == [True]
