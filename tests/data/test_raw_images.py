import gzip
import io
import os

import numpy as np
import pytest
from PIL import Image

from hsearch.data.raw_images import as_png, mapped
from hsearch.errors import DatasetError


@pytest.mark.parametrize("content", [b"", b"x", bytes(range(256)) * 5000])
def test_bytes_of_a_file_packed_or_not(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    (tmp_path / "a.gz").write_bytes(gzip.compress(content))
    assert mapped(tmp_path / "a") == mapped(tmp_path / "a.gz") == content
    assert mapped(tmp_path / "a").readonly


@pytest.mark.parametrize("name", ["none", "none.gz", "."])
def test_what_is_no_file(tmp_path, name):
    with pytest.raises(DatasetError, match=r"cannot be read: (No such file|Is a directory)"):
        mapped(tmp_path / name)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "train")
    with pytest.raises(DatasetError, match="it is a pipe"):
        mapped(tmp_path / "train")


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3)])
def test_png_keeps_every_pixel(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    assert (np.asarray(Image.open(io.BytesIO(as_png(pixels)))) == pixels).all()
