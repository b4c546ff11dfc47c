"""Images per second and core: ImageFolder with Pillow against the store and its decoded cache.

All three give the Reality Check's training input: short side 256, random resized crop of 227 with
an area of 0.16 to 1, flip, normalised floats, in batches of 32. One thread; process time, so other
work on the machine hardly matters. The pictures are generated JPEGs of 500 x 375 pixels.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torchvision import transforms
from torchvision.datasets import ImageFolder
from torchvision.transforms import functional as peer

from hsearch.data.pixels import Pixels, open_pixels
from hsearch.data.sources import folder
from hsearch.data.store import Store
from hsearch.data.store_writer import write_store
from hsearch.data.transforms import Crops, draw_crops, eval_image, normalise, train_image
from hsearch.spec import ImageSpec

SPEC = ImageSpec(resize=256, crop=227, scale=(0.16, 1.0))
BATCH = 32
Step = Callable[[NDArray[np.int64]], torch.Tensor]
TARGETS = {"store": 5.0, "cache": 9.0}


def photo(rng: np.random.Generator, height: int = 375, width: int = 500) -> Image.Image:
    """A picture with the spectrum of photographs: detail falls with frequency, colours agree.

    Strength and grain are set so that files are as large as those of photographs of this size.
    """
    picture = np.zeros((height, width, 3), dtype=np.float32)
    for cells in (3, 6, 12, 24, 48, 96, 188):
        strength = 50 / cells**0.4
        shape = (1, 4, cells, cells * width // height)
        noise = torch.from_numpy(rng.normal(0, strength, shape).astype(np.float32))
        large = F.interpolate(noise, (height, width), mode="bicubic")[0].permute(1, 2, 0).numpy()
        picture += large[..., :1] + 0.3 * large[..., 1:]
    picture += rng.normal(0, 3, (height, width, 1))
    return Image.fromarray((picture + 120).clip(0, 255).astype(np.uint8))


def write_photos(root: Path, count: int) -> float:
    """Writes JPEGs of quality 95 into 8 class folders; returns their mean size in kB."""
    rng = np.random.default_rng(0)
    total = 0
    for i in range(count):
        path = root / f"class-{i % 8}" / f"{i:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        photo(rng).save(path, quality=95)
        total += path.stat().st_size
    return total / count / 1000


def rates_of(steps: dict[str, Step], count: int, rounds: int) -> dict[str, float]:
    """Images per second of process time: the median over batches; all take turns by rounds."""
    batches = [np.arange(start, start + BATCH) for start in range(0, count - BATCH + 1, BATCH)]
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for name, step in list(steps.items()) * rounds:
        for rows in batches:
            before = time.process_time()
            step(rows)
            seconds[name].append(time.process_time() - before)
    return {name: BATCH / float(np.median(times)) for name, times in seconds.items()}


def peer_step(root: Path) -> Step:
    train = transforms.Compose(
        [
            transforms.Resize(SPEC.resize),
            transforms.RandomResizedCrop(SPEC.crop, scale=SPEC.scale),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(SPEC.mean, SPEC.std),
        ]
    )
    data = ImageFolder(str(root), transform=train)
    return lambda rows: torch.stack([data[int(row)][0] for row in rows])


def our_step(pixels: Pixels) -> Step:
    rng = np.random.default_rng(0)

    def step(rows: NDArray[np.int64]) -> torch.Tensor:
        crops = draw_crops(rng, *pixels.sizes(rows), SPEC)
        images = [train_image(pixels[int(row)], crops, i, SPEC.crop) for i, row in enumerate(rows)]
        return normalise(torch.stack(images), SPEC)

    return step


def differences(root: Path, store: Store, pixels: Pixels) -> dict[str, tuple[float, float]]:
    """Largest and mean difference to the peer in grey levels, for the same crops."""
    found: dict[str, list[NDArray[np.int64]]] = {"training": [], "evaluation": []}
    rows = np.arange(len(store))
    crops = draw_crops(np.random.default_rng(1), *pixels.sizes(rows), SPEC)
    for row, name in enumerate(store.ids):
        with Image.open(root / name) as opened:
            resized = peer.resize(opened.convert("RGB"), [SPEC.resize])
        centre = peer.center_crop(resized, [SPEC.crop, SPEC.crop])
        found["evaluation"].append(_gap(centre, eval_image(pixels[row], SPEC.crop)))
        ours = train_image(pixels[row], crops, row, SPEC.crop)
        found["training"].append(_gap(_peer_crop(resized, crops, row), ours))
    return {path: (float(np.max(gaps)), float(np.mean(gaps))) for path, gaps in found.items()}


def _peer_crop(image: Image.Image, crops: Crops, row: int) -> Image.Image:
    box = [int(values[row]) for values in (crops.top, crops.left, crops.height, crops.width)]
    cut: Image.Image = peer.resized_crop(image, *box, [SPEC.crop, SPEC.crop])
    return cut.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if crops.flip[row] else cut


def _gap(image: Image.Image, ours: torch.Tensor) -> NDArray[np.int64]:
    gap: NDArray[np.int64] = np.abs(
        np.asarray(image).astype(np.int64) - ours.permute(1, 2, 0).numpy()
    )
    return gap


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--check", action="store_true", help="exit 1 below a target")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    count, rounds = (128, 10) if arguments.quick else (512, 15)
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / "images"
        size = write_photos(root, count)
        path = Path(temporary) / "photos.arrow"
        write_store(path, "photos", folder.records(root), provenance={})
        store = Store.open(path)
        rows = np.arange(len(store))
        plain = open_pixels(store, rows, SPEC.resize, memory_share=0)
        cached = open_pixels(store, rows, SPEC.resize, cache_folder=Path(temporary) / "cache")
        steps = {"peer": peer_step(root), "store": our_step(plain), "cache": our_step(cached)}
        rates = rates_of(steps, count, rounds)
        gaps = differences(root, store, plain)
        stored = path.stat().st_size / count / 1000
        decoded = cached.num_bytes / count / 1000
    return report(rates, gaps, (size, stored, decoded), arguments.check)


def report(
    rates: dict[str, float],
    gaps: dict[str, tuple[float, float]],
    sizes: tuple[float, float, float],
    check: bool,
) -> int:
    names = ("ImageFolder + Pillow", "hsearch store", "hsearch decoded cache")
    print(f"{'one thread, process time':26}{'images/s':>10}{'ratio':>8}{'kB/image':>10}")
    for name, key, size in zip(names, rates, sizes, strict=True):
        print(f"{name:26}{rates[key]:10.0f}{rates[key] / rates['peer']:8.1f}{size:10.0f}")
    for path, (largest, mean) in gaps.items():
        print(f"difference to the peer, {path}: largest {largest:.0f}, mean {mean:.2f} of 255")
    missed = False
    for key, target in TARGETS.items():
        ratio = rates[key] / rates["peer"]
        missed |= ratio < target
        print(f"store_reading/{key}: {ratio:.1f}x (target {target:.0f}x)")
    return int(check and missed)


if __name__ == "__main__":
    sys.exit(main())
