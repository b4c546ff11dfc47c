"""Which epoch of a training is the best."""

from collections.abc import Sequence

from hsearch.results import EpochRecord, score_of
from hsearch.spec import FoldJob


def candidates(job: FoldJob, history: Sequence[EpochRecord]) -> list[EpochRecord]:
    """Returns the validated epochs of the last stage: those before it train something else."""
    last = job.stages()[-1].epochs
    return [record for record in history if record.epoch in last and record.validation]


def best_record(job: FoldJob, history: Sequence[EpochRecord]) -> EpochRecord | None:
    """Returns the first of the best candidates; None before there is one."""
    return max(
        candidates(job, history),
        key=lambda record: score_of(record.validation or {}, job.objective),
        default=None,
    )
