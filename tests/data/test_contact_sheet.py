import numpy as np
import pytest
from PIL import Image

from hsearch.data.contact_sheet import WIDTH, draw_contact_sheet, write_contact_sheet
from hsearch.data.records import Record
from hsearch.errors import DatasetError
from tests.data.toy import encode, photo, toy_records, toy_store


def plain(colour, width=40, height=40):
    return encode(Image.new("RGB", (width, height), colour), "PNG")


def store_of(path, labels, image=None):
    records = [
        Record(f"{number}-{i}", image or encode(photo(10 * number + i)), tuple(each), order=number)
        for number, each in enumerate(labels)
        for i in range(2)
    ]
    return toy_store(path / "toy.arrow", records, size=None)


def test_the_same_store_gives_the_same_bytes(tmp_path):
    store = toy_store(tmp_path / "toy.arrow")
    for name in ("a.png", "b.png"):
        write_contact_sheet(store, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    with Image.open(tmp_path / "a.png") as sheet:
        assert (sheet.format, sheet.mode, sheet.width) == ("PNG", "RGB", WIDTH)


def test_classes_from_all_over_the_hierarchy_are_shown(tmp_path):
    """Ten groups of ten classes, a colour for each group: the first and the last are there."""
    colours = [(20 * group, 250 - 20 * group, 60) for group in range(10)]
    records = [
        Record(f"{g}-{c}-{i}", plain(colours[g]), (f"group-{g}", f"{g}-{c}"), order=10 * g + c)
        for g in range(10)
        for c in range(10)
        for i in range(2)
    ]
    sheet = draw_contact_sheet(toy_store(tmp_path / "toy.arrow", records))
    shown = {colour for _, colour in sheet.getcolors(maxcolors=2**24) or []}
    found = [group for group, colour in enumerate(colours) if colour in shown]
    assert len(found) == 6
    assert {0, 9} <= set(found)


def test_a_thousand_classes_fit_on_one_sheet(tmp_path):
    image = plain((9, 9, 9))
    small = draw_contact_sheet(store_of(tmp_path, [(f"{i}",) for i in range(12)], image))
    large = draw_contact_sheet(store_of(tmp_path, [(f"{i}",) for i in range(1000)], image))
    assert large.size == small.size


@pytest.mark.parametrize(
    "name",
    ["\u732b\u3068", "\u043a\u043e\u0442", "cafe\u0301", "a\nb\tc", "\x00\u200b", "\U0001f426", ""],
)
def test_any_writing_can_be_drawn(tmp_path, name):
    draw_contact_sheet(store_of(tmp_path, [(f"{name}0", f"{name}1"), (f"{name}2", f"{name}3")]))


def test_long_labels_are_cut_at_the_margin(tmp_path):
    paths = [("group " * 60, "middle", f"class {i} " * 40) for i in range(2)]
    sheet = np.asarray(draw_contact_sheet(store_of(tmp_path, paths)))
    assert sheet[:, -20:].min() == 255


@pytest.mark.parametrize(("width", "height"), [(800, 40), (40, 800), (1, 1), (5, 100)])
def test_images_of_any_shape_stay_inside(tmp_path, width, height):
    paths = [(f"class {i}",) for i in range(2)]
    image = plain((9, 9, 9), width, height)
    sheet = np.asarray(draw_contact_sheet(store_of(tmp_path, paths, image)))
    assert sheet[:, -20:].min() == 255
    assert (sheet == 9).any()


def test_tags_are_shown_from_frequent_to_rare(tmp_path):
    red, blue = (200, 0, 0), (0, 0, 200)
    records = [Record(f"{i}", plain(red), (), tags=("often",)) for i in range(6)]
    records += [Record("last", plain(blue), (), tags=("a rare one",))]
    sheet = np.asarray(draw_contact_sheet(toy_store(tmp_path / "toy.arrow", records)))
    rows = [np.flatnonzero((sheet == colour).all(axis=2).any(axis=1)) for colour in (red, blue)]
    assert rows[0].max() < rows[1].min()


def test_what_cannot_be_written_is_a_sentence(tmp_path):
    store = toy_store(tmp_path / "toy.arrow", toy_records(2))
    with pytest.raises(DatasetError, match=r"cannot be written to .* name another file"):
        write_contact_sheet(store, store.path / "sheet.png")
