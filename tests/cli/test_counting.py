from hsearch.cli.counting import PlainLines


def lines(capsys, seconds, total):
    """What is printed if `total` images take so many seconds."""
    now = [0.0]
    progress = PlainLines("preparing mine", clock=lambda: now[0])
    for done in range(1, total + 1):
        now[0] += seconds / total
        progress(done, total)
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_a_short_preparation_is_silent(capsys):
    assert lines(capsys, 0.5, 1000) == []


def test_a_line_every_tenth(capsys):
    printed = lines(capsys, 20, 1000)
    assert len(printed) in (9, 10)
    assert printed[0] == "preparing mine: 100/1000 (10%)"


def test_a_line_every_five_seconds_of_a_long_one(capsys):
    assert 18 <= len(lines(capsys, 100, 1000)) <= 20


def test_never_more_than_one_line_a_second(capsys):
    assert 1 <= len(lines(capsys, 3, 1000)) <= 3
