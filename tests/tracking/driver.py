"""A driver in a process of its own: lives through the states of a study and tracks them.

Usage: python driver.py STATES.json NOTES.json URI
It goes on after the run ids in NOTES.json, as a study's record would.
"""

import json
import sys
import time
from pathlib import Path

from hsearch.files import write_whole
from hsearch.search.record import StudyRecord
from hsearch.tracking.tracker import Tracker


def main(states_file: Path, notes_file: Path, uri: str) -> None:
    states = [StudyRecord.from_dict(state) for state in json.loads(states_file.read_text())]
    notes = json.loads(notes_file.read_text()) if notes_file.exists() else {}
    now = states[0]

    def record() -> StudyRecord:
        trials = [t.model_copy(update={"run_id": notes.get(str(t.number))}) for t in now.trials]
        return now.model_copy(update={"run_id": notes.get("None"), "trials": tuple(trials)})

    def note_run(run_id: str, number: int | None = None) -> None:
        notes[str(number)] = run_id
        write_whole(notes_file, json.dumps(notes).encode())

    tracker = Tracker(record, note_run, uri)
    for now in states:  # noqa: B007
        tracker.wake()
        time.sleep(0.05)
    sys.exit(0 if tracker.close(60) else 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
