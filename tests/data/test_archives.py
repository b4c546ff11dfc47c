import contextlib
import gzip
import io
import stat
import tarfile
import zipfile

import numpy as np
import pytest

from hsearch.data.archives import is_archive, unpack
from hsearch.errors import DatasetError

FILES = {"set/images/a.jpg": b"a" * 5000, "set/list.txt": b"a.jpg\n"}


def make(path, files=FILES):
    """Writes the files as an archive of the kind that its name says."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in files.items():
                file.writestr(name, content)
        return path
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz", "x.tgz", "X.ZIP"])
def test_every_kind_is_unpacked(tmp_path, name):
    archive = make(tmp_path / name.lower())
    archive = archive.rename(tmp_path / name)
    assert is_archive(archive)
    unpack(archive, tmp_path / "out")
    found = {
        path.relative_to(tmp_path / "out").as_posix(): path.read_bytes()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    }
    assert found == FILES


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tgz"])
def test_progress_is_told_in_megabytes(tmp_path, name):
    noise = np.random.default_rng(0).bytes(3_000_000)
    files = {f"set/{i}.jpg": noise for i in range(4)}
    told = []
    unpack(make(tmp_path / name, files), tmp_path / "out", lambda *words: told.append(words))
    assert {(what, total) for what, _, total in told} == {(f"unpacking {name} (MB)", 12)}
    counts = [done for _, done, _ in told]
    assert counts == sorted(counts)
    assert counts[0] <= 3
    assert 8 <= counts[-1] <= 12


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tgz"])
def test_a_truncated_archive_is_a_sentence(tmp_path, name):
    archive = make(tmp_path / name)
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 3])
    with pytest.raises(DatasetError, match="damaged or cut off"):
        unpack(archive, tmp_path / "out")


def test_what_is_no_archive_is_a_sentence(tmp_path):
    for name in ("x.zip", "x.tar", "x.tgz"):
        (tmp_path / name).write_bytes(b"<html>moved</html>")
        with pytest.raises(DatasetError, match="damaged or cut off"):
            unpack(tmp_path / name, tmp_path / "out")


@pytest.mark.parametrize(
    "name", ["../evil.txt", "/tmp/evil.txt", "a/../../evil.txt", "..\\evil.txt"]
)
@pytest.mark.parametrize("kind", ["x.zip", "x.tar"])
def test_no_entry_leaves_the_folder(tmp_path, name, kind):
    archive = tmp_path / kind
    if kind == "x.zip":
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr(zipfile.ZipInfo(name), "evil")
    else:
        with tarfile.open(archive, "w") as tar:
            tar.addfile(tarfile.TarInfo(name))
    out = tmp_path / "deep" / "out"
    out.mkdir(parents=True)
    with contextlib.suppress(DatasetError):  # or the name was made harmless
        unpack(archive, out)
    outside = [path for path in tmp_path.rglob("*evil*") if not path.is_relative_to(out)]
    assert outside == []


@pytest.mark.parametrize("kind", ["x.zip", "x.tar"])
def test_links_out_of_the_folder_are_refused(tmp_path, kind):
    archive = tmp_path / kind
    if kind == "x.zip":
        entry = zipfile.ZipInfo("link")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr(entry, "/etc/passwd")
    else:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        with tarfile.open(archive, "w") as tar:
            tar.addfile(link)
    with pytest.raises(DatasetError, match="below its own folder"):
        unpack(archive, tmp_path / "out")


@pytest.mark.parametrize("files", [0, 1, 2])
@pytest.mark.parametrize("packed", [False, True])
def test_a_tar_that_ends_between_two_files_is_refused(tmp_path, files, packed):
    whole = make(tmp_path / "x.tar").read_bytes()
    with tarfile.open(tmp_path / "x.tar") as tar:
        ends = [member.offset for member in tar] + [tar.offset]
    cut = gzip.compress(whole[: ends[files]]) if packed else whole[: ends[files]]
    path = tmp_path / ("x.tgz" if packed else "x.tar")
    path.write_bytes(cut)
    with pytest.raises(DatasetError, match=r"damaged or cut off \(.*\); get it again") as caught:
        unpack(path, tmp_path / "out")
    assert "\n" not in str(caught.value)


def test_what_follows_a_broken_head_is_missed(tmp_path):
    path = make(tmp_path / "x.tar")
    with tarfile.open(path) as tar:
        second = tar.getmembers()[1].offset
    content = bytearray(path.read_bytes())
    content[second : second + 10] = b"\xff" * 10
    path.write_bytes(content)
    with pytest.raises(DatasetError, match="no mark at its end"):
        unpack(path, tmp_path / "out")
