"""BN-Inception, the backbone of the Reality Check and of Proxy-Anchor, which timm does not have.

The network is the one of Ioffe & Szegedy as ported from Caffe by Xiong and Cadene: convolutions
keep their biases, and modules bear the names of the public weights file, which therefore loads as
it is. It wants BGR channels of 0..255 minus (104, 117, 128).

References:
    Ioffe, Szegedy, Batch Normalization: Accelerating Deep Network Training by Reducing Internal
    Covariate Shift, ICML 2015, arXiv:1502.03167, figure 5.
"""

from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, hub, nn

from hsearch.errors import ConfigError
from hsearch.models.weights import first_line, load_weights, reachable

WEIGHTS_FILE = "bn_inception-52deb4733.pth"
WEIGHTS_URL = f"http://data.lip6.fr/cadene/pretrainedmodels/{WEIGHTS_FILE}"
CLASSIFIER = "last_linear"


class _Block(NamedTuple):
    """Channels of an inception block's branches; without `single` it halves the map."""

    single: int
    reduce: int
    triple: int
    double_reduce: int
    double: int
    project: int
    pool: str = "avg"

    @property
    def stride(self) -> int:
        return 1 if self.single else 2


_BLOCKS = {
    "3a": _Block(64, 64, 64, 64, 96, 32),
    "3b": _Block(64, 64, 96, 64, 96, 64),
    "3c": _Block(0, 128, 160, 64, 96, 0, "max"),
    "4a": _Block(224, 64, 96, 96, 128, 128),
    "4b": _Block(192, 96, 128, 96, 128, 128),
    "4c": _Block(160, 128, 160, 128, 160, 128),
    "4d": _Block(96, 128, 192, 160, 192, 128),
    "4e": _Block(0, 128, 192, 192, 256, 0, "max"),
    "5a": _Block(352, 192, 320, 160, 224, 128),
    "5b": _Block(352, 192, 320, 192, 224, 128, "max"),
}


class BNInception(nn.Module):
    """The network without its classifier; 10 270 240 parameters.

    Attributes:
        num_features: Channels of its output.
    """

    num_features = 1024

    def __init__(self) -> None:
        super().__init__()
        self._add("conv1_7x7_s2", 3, 64, kernel=7, stride=2)
        self._add("conv2_3x3_reduce", 64, 64)
        self._add("conv2_3x3", 64, 192, kernel=3)
        width = 192
        for name, block in _BLOCKS.items():
            width = self._add_block(f"inception_{name}", width, block)

    def forward_features(self, images: Tensor) -> Tensor:
        """Maps (B, 3, H, W) to (B, 1024, h, w); 224 and 227 pixels give 7 x 7."""
        x = _halved(self._unit("conv1_7x7_s2", images))
        x = _halved(self._unit("conv2_3x3", self._unit("conv2_3x3_reduce", x)))
        for name, block in _BLOCKS.items():
            x = self._block(f"inception_{name}", x, block)
        return x

    def _add(self, name: str, width: int, channels: int, kernel: int = 1, stride: int = 1) -> None:
        convolution = nn.Conv2d(width, channels, kernel, stride, padding=kernel // 2)
        self.add_module(name, convolution)
        self.add_module(f"{name}_bn", nn.BatchNorm2d(channels))

    def _add_block(self, name: str, width: int, block: _Block) -> int:
        """Adds a block and returns its number of output channels."""
        if block.single:
            self._add(f"{name}_1x1", width, block.single)
        self._add(f"{name}_3x3_reduce", width, block.reduce)
        self._add(f"{name}_3x3", block.reduce, block.triple, 3, block.stride)
        self._add(f"{name}_double_3x3_reduce", width, block.double_reduce)
        self._add(f"{name}_double_3x3_1", block.double_reduce, block.double, 3)
        self._add(f"{name}_double_3x3_2", block.double, block.double, 3, block.stride)
        if block.project:
            self._add(f"{name}_pool_proj", width, block.project)
        return block.single + block.triple + block.double + (block.project or width)

    def _unit(self, name: str, x: Tensor) -> Tensor:
        normalised: Tensor = self.get_submodule(f"{name}_bn")(self.get_submodule(name)(x))
        return F.relu(normalised, inplace=True)

    def _block(self, name: str, x: Tensor, block: _Block) -> Tensor:
        branches = [self._unit(f"{name}_1x1", x)] if block.single else []
        branches.append(self._unit(f"{name}_3x3", self._unit(f"{name}_3x3_reduce", x)))
        double = self._unit(f"{name}_double_3x3_reduce", x)
        double = self._unit(f"{name}_double_3x3_1", double)
        branches.append(self._unit(f"{name}_double_3x3_2", double))
        if block.stride == 2:
            branches.append(_halved(x))
        else:
            pool = F.avg_pool2d if block.pool == "avg" else F.max_pool2d
            branches.append(self._unit(f"{name}_pool_proj", pool(x, 3, 1, 1)))
        return torch.cat(branches, dim=1)


def cached_file() -> Path:
    """Returns where the public ImageNet weights lie in torch's own cache of weights, or would."""
    return Path(hub.get_dir()) / "checkpoints" / WEIGHTS_FILE


def load_pretrained(network: BNInception) -> None:
    """Loads the public ImageNet weights, downloaded once into torch's own cache of weights."""
    path = cached_file()
    if not path.is_file():
        try:
            if not reachable(WEIGHTS_URL):
                raise FileNotFoundError("no network")
            path.parent.mkdir(parents=True, exist_ok=True)
            digest = WEIGHTS_FILE.removesuffix(".pth").rpartition("-")[2]
            hub.download_url_to_file(WEIGHTS_URL, str(path), hash_prefix=digest, progress=False)
        except (OSError, RuntimeError) as error:
            raise ConfigError(
                "The pretrained weights of 'bn_inception' are not on this machine and could not "
                f"be downloaded ({first_line(error)}). Copy {WEIGHTS_URL} into the folder that "
                "HSEARCH_WEIGHTS names, or anywhere here and add "
                f"`--set model.weights={WEIGHTS_FILE}`; or train from scratch with "
                "`--set model.weights=random`."
            ) from error
    load_weights(network, path, ignore=(CLASSIFIER,))


def _halved(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 3, 2, ceil_mode=True)
