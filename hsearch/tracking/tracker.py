"""The thread that brings MLflow up to the study's record, whenever it can."""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from hsearch.errors import HsearchError
from hsearch.search.record import StudyRecord, TrialRecord
from hsearch.tracking.address import checked_uri, without_credentials
from hsearch.tracking.failure import reason_of
from hsearch.tracking.points import TRIALS
from hsearch.tracking.projection import (
    STUDY,
    RunView,
    Status,
    experiment_name,
    study_id,
    study_view,
    trial_view,
)
from hsearch.tracking.tables import VALIDATION, validation_table
from hsearch.tracking.writer import Writer, open_client

if TYPE_CHECKING:
    from mlflow import MlflowClient

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0

Signature = tuple[str, int, str | None]
StudySignature = tuple[Status, int, float | None]


class NoteRun(Protocol):
    """Keeps the ids of MLflow runs in the record."""

    def __call__(self, run_id: str, number: int | None = None) -> None:
        """Keeps the id of a trial's run, or of the study's run without a number."""


class Tracker:
    """Writes a study to MLflow from a thread of its own; nothing but `close` ever waits for it.

    Whatever goes wrong is tried again with growing pauses. The record remains the only truth: a
    tracker that is killed, or never reaches its server, is made good by the next one.

    Args:
        record: Returns the study as it is now; called from the thread.
        note_run: Called from the thread with the id of every run of the study.
        uri: MLflow's address, see `checked_uri`.
        lost: Once set, nothing is written any more: the study's runs are another driver's by then.
    """

    def __init__(
        self,
        record: Callable[[], StudyRecord],
        note_run: NoteRun,
        uri: str,
        lost: threading.Event | None = None,
    ) -> None:
        self.uri = checked_uri(uri)
        self._record = record
        self._note_run = note_run
        self._client: MlflowClient | None = None
        self._writer: Writer | None = None
        self._written: dict[int, Signature] = {}
        self._study_written: StudySignature | None = None
        self._status: Status = "RUNNING"
        self._reason: str | None = None
        self._awake = threading.Event()
        self._closing = threading.Event()
        self._abandoned = threading.Event()
        self._lost = lost or threading.Event()
        self._thread = threading.Thread(target=self._run, name="hsearch-mlflow", daemon=True)
        self._thread.start()
        self.wake()

    def wake(self) -> None:
        """Says that the record has grown; returns at once."""
        self._awake.set()

    def close(self, timeout: float, *, over: bool = True) -> bool:
        """Waits until everything is written, and returns whether it was; never after a loss.

        Args:
            timeout: The most seconds to wait.
            over: Whether the search is over; otherwise its run is shown as interrupted.
        """
        self._status = "FINISHED" if over else "KILLED"
        self._closing.set()
        self.wake()
        if not self._lost.is_set():
            self._thread.join(timeout)
        self._abandoned.set()
        return not self._thread.is_alive() and self.behind is None

    @property
    def in_trouble(self) -> bool:
        """Whether the last attempt to write failed."""
        return self._reason is not None

    @property
    def behind(self) -> str | None:
        """What is not in MLflow yet and why, in a sentence; None where all is written."""
        record = self._record()
        late = sum(self._written.get(t.number) != self._signature(t) for t in record.trials)
        if not late and self._study_written == self._study_signature(record):
            return None
        what = f"{late} of {len(record.trials)} trials" if late else "the study's own run"
        opening = "it is being opened" if self._writer is None else "they are being written"
        why = self._reason or opening
        where = without_credentials(self.uri)
        return f"MLflow ({where}) does not show {what} yet: {why}."

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while self._awake.wait() and not self._must_end():
            self._awake.clear()
            closing = self._closing.is_set()
            if self._attempt():
                pause = FIRST_PAUSE
                if closing:
                    return
                continue
            self.wake()
            if closing:
                time.sleep(FIRST_PAUSE)
            else:
                self._closing.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _attempt(self) -> bool:
        """Brings MLflow up to the record; returns whether that worked."""
        try:
            self._bring_up(self._record())
        except Exception as error:  # noqa: BLE001 (artifact stores raise errors of their own kinds)
            self._reason = reason_of(error)
            self._writer = None  # nobody knows what arrived
            return False
        self._reason = None
        return True

    def _bring_up(self, record: StudyRecord) -> None:
        if not record.trials:
            self._study_written = self._study_signature(record)
            return
        if self._writer is None:
            self._writer = self._connect(record)
        if self._study_written is None:
            self._note(self._write(study_view(record, "RUNNING")), record.run_id)
        for trial in record.trials:
            if self._written.get(trial.number) != self._signature(trial):
                view = trial_view(record, trial, interrupted=self._status == "KILLED")
                self._note(self._write(view), trial.run_id, trial.number)
                self._written[trial.number] = self._signature(trial)
        signature = self._study_signature(record)
        if self._study_written != signature:
            # Of the last step that was written a part may be missing; before it, nothing is.
            since = self._writer.last_step(STUDY, TRIALS)
            self._write(study_view(record, signature[0], since))
            self._writer.write_artifact(
                "study.json", record.spec.model_dump_json(indent=2), record.spec.digest()
            )
            if record.best is not None:
                self._writer.write_table(VALIDATION, validation_table(record.best))
            self._study_written = signature

    def _write(self, view: RunView) -> str:
        """Brings one run up to its view; gives up where this tracker may not write any more."""
        if self._must_end():
            raise HsearchError("there was no time left to write them")
        assert self._writer is not None
        return self._writer.write(view)

    def _must_end(self) -> bool:
        return self._abandoned.is_set() or self._lost.is_set()

    def _connect(self, record: StudyRecord) -> Writer:
        if self._client is None:
            self._client = open_client(self.uri)
        noted = {run_id for t in record.trials if (run_id := t.run_id)} | {record.run_id or ""}
        experiment = experiment_name(record.spec.job)
        writer = Writer(self._client, self.uri, experiment, study_id(record), noted)
        # A server may have come back without what it was told, and a user may have deleted a run.
        self._written = {n: done for n, done in self._written.items() if str(n) in writer}
        if STUDY not in writer:
            self._study_written = None
        writer.offer_studies(tested=False)
        return writer

    def _note(self, run_id: str, noted: str | None, number: int | None = None) -> None:
        if run_id != noted:
            self._note_run(run_id, number)

    def _study_signature(self, record: StudyRecord) -> StudySignature:
        finished = sum(trial.ended is not None for trial in record.trials)
        return self._status, finished, record.floor

    def _signature(self, trial: TrialRecord) -> Signature:
        interrupted = trial.state == "running" and self._status == "KILLED"
        return "interrupted" if interrupted else trial.state, len(trial.folds), trial.reason
