import io

import numpy as np
import pytest
from PIL import Image

from hsearch.data import decoding
from hsearch.data.decoding import decode
from tests.data.toy import encode, photo, toy_store


def pillow(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


def ours(data: bytes) -> np.ndarray:
    return decode(memoryview(data)).permute(1, 2, 0).numpy().astype(int)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_every_stored_format_decodes_as_pillow_does(kind, mode):
    data = encode(photo(5).convert(mode), kind)
    assert np.abs(ours(data) - pillow(data)).max() <= 1


def test_without_the_fast_decoder_pillow_decodes(monkeypatch):
    monkeypatch.setattr(decoding, "_decode_jpeg", None)
    data = encode(photo(5))
    assert np.array_equal(ours(data), pillow(data))


def test_the_fast_decoder_is_used_for_stored_jpegs(tmp_path, monkeypatch):
    store = toy_store(tmp_path / "toy.arrow")
    monkeypatch.setattr(Image, "open", None)
    assert decode(store.encoded(0)).shape == (3, 40, 60)
