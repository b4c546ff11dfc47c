import subprocess
import sys

PROGRAM = """
import io, sys
from functools import partial
from pathlib import Path
from PIL import Image
from hsearch.data.records import Record
from hsearch.data.store_writer import write_store

picture = io.BytesIO()
Image.new("RGB", (16, 16), "olive").save(picture, "JPEG")

def image(number):
    # What follows the end of a JPEG does not matter, so all are different and 8 kB large.
    return picture.getvalue() + number.to_bytes(4, "big") * 2000

records = (
    Record(
        f"images/class-{i // 20:05d}/{i:08d}.jpg",
        partial(image, i),
        (f"group-{i // 200:04d}", f"class-{i // 20:05d}"),
    )
    for i in range(int(sys.argv[2]))
)
report = write_store(Path(sys.argv[1]), "many", records, provenance={})
assert report.images == int(sys.argv[2]), report
status = Path("/proc/self/status").read_text().splitlines()
print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


def peak_megabytes(path, images):
    """Of a new process that prepares so many images of 8 kB each."""
    command = [sys.executable, "-c", PROGRAM, str(path), str(images)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout) / 1000


def test_memory_hardly_grows_with_the_number_of_images(tmp_path):
    """18,000 more images have 144 MB; their ids, labels and sizes take a tenth of that."""
    path = tmp_path / "many.arrow"
    few = peak_megabytes(path, 2_000)
    many = peak_megabytes(path, 20_000)
    assert path.stat().st_size > 160_000_000
    assert many < few + 40
