import bz2
import contextlib
import gzip
import io
import lzma
import os
import shutil
import stat
import struct
import tarfile
import zipfile

import numpy as np
import pytest

from hsearch.data.archives import is_archive, stem, unpack
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


@pytest.mark.parametrize("kind", ["SYMTYPE", "LNKTYPE", "FIFOTYPE", "CHRTYPE"])
def test_a_tar_holds_files_and_folders_only(tmp_path, kind):
    """Also where a link stays inside: no official archive needs one."""
    entry = tarfile.TarInfo("set/link")
    entry.type, entry.linkname = getattr(tarfile, kind), "list.txt"
    with tarfile.open(make(tmp_path / "x.tar"), "a") as tar:
        tar.addfile(entry)
    with pytest.raises(DatasetError, match=r"below its own folder, but .* holds 'set/link'"):
        unpack(tmp_path / "x.tar", tmp_path / "out")


def test_links_beyond_the_longest_path_do_not_lead_out(tmp_path):
    """A chain that tarfile's data filter of Python 3.11.7 takes for one inside (CVE-2025-4517)."""
    long, steps, path = "d" * 247, "abcdefghijklmnop", ""
    link = os.path.join("/".join(steps), "l" * 254)
    with tarfile.open(tmp_path / "x.tar", "w") as tar:

        def add(name, kind, target=""):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.mode = kind, target, 0o755
            tar.addfile(entry, io.BytesIO())

        for step in steps:
            add(os.path.join(path, long), tarfile.DIRTYPE)
            add(os.path.join(path, step), tarfile.SYMTYPE, long)
            path = os.path.join(path, long)
        add(link, tarfile.SYMTYPE, "../" * len(steps))
        add("escape", tarfile.SYMTYPE, f"{link}/../../../")
        add("escape/evil.txt", tarfile.REGTYPE)
    out = tmp_path / "a" / "b" / "c" / "out"
    with pytest.raises(DatasetError, match=r"below its own folder, but .* holds 'a'"):
        unpack(tmp_path / "x.tar", out)
    assert not [path for path in tmp_path.glob("**/evil.txt") if not path.is_relative_to(out)]


def test_folders_of_a_zip_may_end_in_a_backslash_or_be_the_folder_itself(tmp_path):
    names = ["./", "set\\", "set\\images\\"]
    files = {name: b"" for name in names} | {"set\\images\\a.jpg": b"a"}
    unpack(make(tmp_path / "x.zip", files), tmp_path / "out")
    assert (tmp_path / "out" / "set" / "images" / "a.jpg").read_bytes() == b"a"
    assert len(list((tmp_path / "out").rglob("*"))) == 3


def test_an_unknown_compression_is_a_sentence(tmp_path):
    path = make(tmp_path / "x.zip")
    content, deflate64 = bytearray(path.read_bytes()), 9
    at = content.index(b"PK\x01\x02")
    content[at + 10 : at + 12] = struct.pack("<H", deflate64)
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=r"not known here .*; unpack it by hand first"):
        unpack(path, tmp_path / "out")


@pytest.mark.parametrize("files", [{"a" * 300: b""}, {"set": b"", "set/list.txt": b"x"}])
def test_what_the_disk_cannot_hold_is_told_of_the_archive(tmp_path, files):
    path = make(tmp_path / "x.zip", files)
    with pytest.raises(
        DatasetError, match=r"x\.zip cannot be unpacked: (File name|Not a dir|File e)"
    ):
        unpack(path, tmp_path / "out")


@pytest.mark.parametrize("place", [-6, -2])
def test_a_wrong_checksum_or_length_is_damage(tmp_path, place):
    path = make(tmp_path / "x.tgz")
    content = bytearray(path.read_bytes())
    content[place] ^= 255
    path.write_bytes(content)
    with pytest.raises(DatasetError, match="damaged or cut off"):
        unpack(path, tmp_path / "out")


@pytest.mark.parametrize("kind", ["bz2", "xz"])
def test_other_kinds_that_are_damaged(tmp_path, kind):
    path = tmp_path / f"x.tar.{kind}"
    packer = {"bz2": bz2, "xz": lzma}[kind]
    path.write_bytes(packer.compress(make(tmp_path / "y.tar").read_bytes()))
    unpack(path, tmp_path / "good")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    with pytest.raises(DatasetError, match="damaged or cut off"):
        unpack(path, tmp_path / "out")


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tgz"])
def test_an_archive_larger_than_the_disk_is_refused(tmp_path, monkeypatch, name):
    files = {f"{i}.bin": bytes(2_000_000) for i in range(3)}
    path = make(tmp_path / name, files)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=3_000_000))
    with pytest.raises(DatasetError, match=r"takes [46] MB or more unpacked, but .* has 3 MB left"):
        unpack(path, tmp_path / "out")
    written = sum(file.stat().st_size for file in (tmp_path / "out").rglob("*"))
    assert written <= 3_000_000


@pytest.mark.parametrize(
    ("name", "expected"), [("a.tar.gz", "a"), ("b.c.tgz", "b.c"), ("x.json.TAR.GZ", "x.json")]
)
def test_the_stem_has_no_kind(tmp_path, name, expected):
    assert stem(tmp_path / name) == expected


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
