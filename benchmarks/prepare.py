"""Images per second of `hsearch data prepare` against a plain loop of Pillow, and its memory.

The pictures are generated JPEGs of 800 x 600 pixels, each of them different. The plain loop opens,
resizes and saves one after the other, with the same filter, size, quality and subsampling, and
checks nothing; ours also checks, digests, writes one file and reads it back, over all cores. They
take turns, each time in a new process; the figure is the median ratio of wall times. Both make the
same bytes. Process time tells what ours costs besides, whatever else the machine does.
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


def plain_loop(source: Path, target: Path) -> None:
    target.mkdir()
    for path in sorted(source.rglob("*.jpg")):
        with Image.open(path) as image:
            small = image.resize(RESIZED, Image.Resampling.BILINEAR)
        small.save(target / path.name, quality=JPEG_QUALITY, subsampling=JPEG_SUBSAMPLING)


def child(who: str, source: Path, home: Path) -> None:
    """One turn; prints seconds, process time, and the peak of its memory before and after."""
    before = peak_memory()
    began, worked = time.perf_counter(), time.process_time()
    if who == "plain":
        plain_loop(source, home / "plain")
    else:
        prepare("photos", source)
    seconds, work = time.perf_counter() - began, time.process_time() - worked
    print(json.dumps([seconds, work, before, peak_memory()]))


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--check", action="store_true", help="exit 1 below the target")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], *map(Path, options.child[1:]))
        return 0
    rounds, count = (2, 200) if options.quick else (5, 5000)
    with tempfile.TemporaryDirectory() as temporary:
        return measure(Path(temporary), rounds, count, options.check)


def measure(folder: Path, rounds: int, count: int, check: bool) -> int:
    size = write_photos(folder / "images", count)
    print(f"{count} JPEGs of {WIDTH} x {HEIGHT}, {size:.0f} kB each; {os.cpu_count()} cores")
    heads = f"{'turn':>4}{'plain images/s':>16}{'hsearch images/s':>18}"
    print(f"{heads}{'ratio':>7}{'work':>7}{'peak MB':>9}")
    ratios, peaks = [], []
    for number in range(rounds):
        home = folder / str(number)
        plain = turn("plain", folder / "images", home / "a")
        ours = turn("hsearch", folder / "images", home / "b")
        check_equal(home / "b", home / "a" / "plain")
        ratios.append(plain[0] / ours[0])
        peaks.append(ours[3])
        rates = f"{count / plain[0]:16.0f}{count / ours[0]:18.0f}"
        print(f"{number:4}{rates}{ratios[-1]:7.2f}{ours[1] / plain[1]:7.2f}{ours[3]:9.0f}")
    figure = statistics.median(ratios)
    print(f"memory: {max(peaks):.0f} MB at most, {ours[2]:.0f} of it after the imports")
    cores = os.cpu_count() or 1
    print(f"prepare: {figure:.2f}x on {cores} cores (target {TARGET}x on {CORES})")
    return int(check and cores >= CORES and figure < TARGET)


if __name__ == "__main__":
    sys.exit(main())
