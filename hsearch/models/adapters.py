"""Low-rank adapters: small trainable layers beside the frozen layers of a backbone.

References:
    Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, ICLR 2022, arXiv:2106.09685.
"""

import importlib.util

import torch
from torch import nn

from hsearch.errors import ConfigError

MARK = ".lora_"
"""What the names of an adapter's weights have, and no other weight's."""


def add_adapters(network: nn.Module, *, rank: int, alpha: float, seed: int) -> None:
    """Gives every linear and convolution layer an adapter, in place.

    The output of an adapted layer is its own plus `alpha / rank` times that of the adapter, which
    is 0 before training. Grouped convolutions have none, nor have those that are dilated or pad by
    themselves, as some of timm do, unless their kernel is a single pixel: an adapter could not
    follow them.

    Args:
        network: Of timm, or BN-Inception.
        rank: Channels between the two layers of an adapter, at least 1.
        alpha: Scale of the adapters, > 0.
        seed: Root of their random weights.

    Raises:
        ConfigError: `peft` is not installed, or no layer can have an adapter.
    """
    if importlib.util.find_spec("peft") is None:
        raise ConfigError(
            "`model.regime: lora` needs the package peft, which is not installed; run "
            "`pip install peft` (or install hsearch with its extra `lora`), or choose the regime "
            "frozen or full."
        )
    from peft import LoraConfig, inject_adapter_in_model

    names = [name for name, layer in network.named_modules() if _can_adapt(layer)]
    if not names:
        raise ConfigError(
            "`model.regime: lora` needs a backbone with linear or convolution layers, but "
            f"{type(network).__name__} has none that can be adapted; choose the regime frozen or "
            "full."
        )
    # Fractions do as well for `lora_alpha`, which is only divided by the rank.
    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=names)  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, network)


def _can_adapt(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Conv2d):
        plain = type(layer) is nn.Conv2d and layer.dilation == (1, 1)
        return layer.groups == 1 and (plain or layer.kernel_size == (1, 1))
    return type(layer) is nn.Linear
