"""Images per second of `hsearch data prepare` against a plain loop of Pillow, and its memory.

The pictures are generated JPEGs of 800 x 600 pixels, each of them different. The plain loop opens,
resizes and saves one after the other, with the same filter, size, quality and subsampling, and
checks nothing; ours also checks, digests, writes one file and reads it back, over all cores. They
take turns, each time in a new process; the figure is the median ratio of wall times. Ours decodes
large JPEGs at a lower scale, so there is a second loop that does this too and makes the same bytes
as ours; how far the pixels of the first one are from them is printed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from hsearch.data.images import JPEG_QUALITY, JPEG_SUBSAMPLING
from hsearch.data.library import DEFAULT_SIZE, open_data, prepare

TARGET = 1.8
CORES = 2
HEIGHT, WIDTH = 600, 800
RESIZED = (int(DEFAULT_SIZE * WIDTH / HEIGHT), DEFAULT_SIZE)
CLASSES = 50
BICUBIC = Image.Resampling.BICUBIC


def texture(rng: np.random.Generator, height: int, width: int) -> Image.Image:
    """A picture with the spectrum of photographs: detail falls with frequency, colours agree."""
    picture = np.zeros((height, width, 3), dtype=np.float32)
    for cells in (4, 8, 16, 32, 64, 128, 256, 512):
        shape = (cells, cells * width // height, 4)
        noise = rng.normal(0, 50 / cells**0.4, shape).astype(np.float32)
        layers = [
            np.asarray(
                Image.fromarray(noise[..., i]).resize((width, height), Image.Resampling.BICUBIC)
            )
            for i in range(4)
        ]
        picture += layers[0][..., None] + 0.3 * np.stack(layers[1:], axis=-1)
    picture += rng.normal(0, 3, (height, width, 1))
    return Image.fromarray((picture + 120).clip(0, 255).astype(np.uint8))


def write_photos(root: Path, count: int) -> float:
    """Writes different parts of one large texture into class folders; returns their mean kB."""
    rng = np.random.default_rng(0)
    large = texture(rng, 3 * HEIGHT, 3 * WIDTH)
    corners = zip(
        rng.permutation(2 * WIDTH * 2 * HEIGHT)[:count].tolist(), range(count), strict=True
    )

    def write(corner: tuple[int, int]) -> int:
        place, number = corner
        top, left = divmod(place, 2 * WIDTH)
        path = root / f"class-{number % CLASSES:02d}" / f"{number:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        large.crop((left, top, left + WIDTH, top + HEIGHT)).save(path, quality=90)
        return path.stat().st_size

    with ThreadPoolExecutor() as pool:
        return statistics.mean(pool.map(write, corners)) / 1000


def plain_loop(source: Path, target: Path, draft: bool) -> None:
    target.mkdir()
    for path in sorted(source.rglob("*.jpg")):
        with Image.open(path) as image:
            if draft:
                image.draft(None, RESIZED)
            small = image.resize(RESIZED, Image.Resampling.BILINEAR)
        small.save(target / path.name, quality=JPEG_QUALITY, subsampling=JPEG_SUBSAMPLING)


def child(who: str, source: Path, home: Path) -> None:
    """One turn; prints seconds, and the peak of its memory before and after."""
    before = peak_memory()
    began = time.perf_counter()
    if who == "hsearch":
        prepare("photos", source)
    else:
        plain_loop(source, home / "plain", draft=who == "draft")
    print(json.dumps([time.perf_counter() - began, before, peak_memory()]))


def peak_memory() -> float:
    """In MB, of this process alone: what `getrusage` says includes the parent's."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1000


def turn(who: str, source: Path, home: Path) -> list[float]:
    home.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, __file__, "--child", who, str(source), str(home)],
        env={**os.environ, "HSEARCH_DATA": str(home)},
        check=True,
        capture_output=True,
        text=True,
    )
    numbers: list[float] = json.loads(done.stdout)
    return numbers


def check_equal(home: Path, plain: Path) -> None:
    """Raises unless both have made the same files of all images."""
    os.environ["HSEARCH_DATA"] = str(home)
    store = open_data("photos")
    assert len(store) == len(list(plain.iterdir()))
    for row, name in enumerate(store.ids):
        assert store.encoded(row) == (plain / Path(name).name).read_bytes(), name


def difference(one: Path, other: Path, count: int = 50) -> float:
    """The mean difference of pixels, in grey levels."""
    names = sorted(path.name for path in one.iterdir())[:count]
    pairs = [[np.asarray(Image.open(home / name)) for home in (one, other)] for name in names]
    return float(np.mean([np.abs(a.astype(float) - b).mean() for a, b in pairs]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--check", action="store_true", help="exit 1 below the target")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], *map(Path, options.child[1:]))
        return 0
    rounds, count = (2, 200) if options.quick else (3, 5000)
    with tempfile.TemporaryDirectory() as temporary:
        return measure(Path(temporary), rounds, count, options.check)


def measure(folder: Path, rounds: int, count: int, check: bool) -> int:
    size = write_photos(folder / "images", count)
    print(f"{count} JPEGs of {WIDTH} x {HEIGHT}, {size:.0f} kB each; {os.cpu_count()} cores")
    whos = ("plain", "draft", "hsearch")
    heads = "".join(f"{who + ' images/s':>18}" for who in whos)
    print(f"{'turn':>4}{heads}{'ratio':>7}{'to draft':>10}{'peak MB':>9}")
    ratios, peaks = [], []
    for number in range(rounds):
        homes = {who: folder / str(number) / who for who in whos}
        done = {who: turn(who, folder / "images", homes[who]) for who in whos}
        check_equal(homes["hsearch"], homes["draft"] / "plain")
        plain, draft, ours = (done[who][0] for who in whos)
        ratios.append(plain / ours)
        peaks.append(done["hsearch"][2])
        rates = "".join(f"{count / done[who][0]:18.0f}" for who in whos)
        print(f"{number:4}{rates}{ratios[-1]:7.2f}{draft / ours:10.2f}{peaks[-1]:9.0f}")
    figure = statistics.median(ratios)
    apart = difference(homes["plain"] / "plain", homes["draft"] / "plain")
    print(f"pixels: plain and draft differ by {apart:.1f} of 255 grey levels in the mean")
    print(f"memory: {max(peaks):.0f} MB at most, {done['hsearch'][1]:.0f} of it after the imports")
    cores = os.cpu_count() or 1
    print(f"prepare: {figure:.2f}x on {cores} cores (target {TARGET}x on {CORES})")
    return int(check and cores >= CORES and figure < TARGET)


if __name__ == "__main__":
    sys.exit(main())
