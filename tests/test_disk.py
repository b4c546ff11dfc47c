"""What files take, what removing them frees, and who has them open."""

import os
import subprocess
import sys

from hsearch.disk import file_sizes, freed_bytes, open_files, total_bytes


def test_a_file_with_two_names_counts_once_and_is_freed_with_the_last(tmp_path):
    one, other = tmp_path / "a" / "one", tmp_path / "b" / "other"
    for path in (one, other):
        path.parent.mkdir()
    one.write_bytes(b"x" * 100)
    os.link(one, other)
    (tmp_path / "a" / "more").write_bytes(b"x" * 10)
    first, second = file_sizes(tmp_path / "a"), file_sizes(tmp_path / "b")
    assert total_bytes([*first, *second]) == 110
    assert (freed_bytes(first), freed_bytes(second)) == (10, 0)
    assert freed_bytes([*first, *second, *second]) == 110


def test_links_to_elsewhere_are_not_followed(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "large").write_bytes(b"x" * 1000)
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside")
    assert total_bytes(file_sizes(tmp_path / "inside")) < 1000
    assert file_sizes(tmp_path / "nowhere") == []


def test_files_that_others_have_open_are_found(tmp_path):
    path = tmp_path / "folder" / "a file with blanks"
    path.parent.mkdir()
    path.write_bytes(b"x")
    with path.open("rb"):
        assert open_files([tmp_path]) == {}, "this process knows what it does"
    code = f"import sys; file = open({str(path)!r}); print('open', flush=True); sys.stdin.read()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline()
        assert open_files([tmp_path / "folder"]) == {str(path): reader.pid}
        assert open_files([tmp_path / "fold"]) == {}
        reader.communicate()
