"""Stored image bytes -> pixels."""

import io
from collections.abc import Callable

import numpy as np
import torch
import torchvision.io  # noqa: F401  (registers the operator below)
from PIL import Image

from hsearch.data.images import FORMATS

_JPEG_START = b"\xff\xd8\xff"
_RGB = 3


def _fast_decoder() -> Callable[[torch.Tensor, int, bool], torch.Tensor] | None:
    """Torchvision's JPEG operator, a third faster than Pillow.

    Its Python face is deprecated since 0.29 in favour of torchcodec and warns at every call; when
    the operator is gone, Pillow takes over.
    """
    try:
        operator: Callable[[torch.Tensor, int, bool], torch.Tensor] = torch.ops.image.decode_jpeg
    except AttributeError:
        return None
    return operator


_decode_jpeg = _fast_decoder()


def decoder_name() -> str:
    """Returns what decodes the JPEG files; two decoders differ by a grey level here and there."""
    return "pillow" if _decode_jpeg is None else "torchvision"


def decode(data: memoryview | bytes) -> torch.Tensor:
    """Returns the pixels of a JPEG, PNG or WEBP file of a store: uint8 (3, H, W), RGB.

    Raises:
        OSError, RuntimeError, SyntaxError, ValueError: The bytes are damaged.
    """
    if _decode_jpeg is not None and bytes(data[:3]) == _JPEG_START:
        return _decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), _RGB, False)
    with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
        pixels = np.array(opened.convert("RGB"))
    return torch.from_numpy(pixels).permute(2, 0, 1)
