"""Start points of a search that another study has found: its best trials."""

from contextlib import closing, suppress

from hsearch.errors import ConfigError
from hsearch.search.domain import StartPoint
from hsearch.search.plan import StudyPlan
from hsearch.search.record import StudyRecord, rank
from hsearch.search.study import Study

MOST_POINTS = 5


def points_of_study(plan: StudyPlan, name: str, storage: str) -> tuple[StartPoint, ...]:
    """Returns what a search tries right after the published values; none without `start_from`.

    They are the best complete trials of the other study when the search begins. From then on its
    own record has them, so that it can go on whatever becomes of the other study.

    Args:
        plan: Of the search.
        name: Of its study.
        storage: Of both studies.

    Raises:
        ConfigError: There is no such study, it is of another method, or has no complete trial.
    """
    other = plan.spec.start_from
    if other is None:
        return ()
    with suppress(ConfigError), closing(Study.load(name, storage)) as begun:
        if begun.record().trials:
            return begun.earlier_points()
    with closing(Study.load(other, storage)) as study:
        record = study.record()
    method, theirs = plan.spec.job.method.name, record.spec.job.method.name
    if theirs != method:
        raise ConfigError(
            f"A search starts from a study of the same method, but '{other}' is of {theirs}, not "
            f"{method}; name another study with --start-from."
        )
    return best_points(record, [knob.name for knob in plan.space.knobs])


def best_points(record: StudyRecord, knobs: list[str]) -> tuple[StartPoint, ...]:
    """Returns the best complete trials of a study as start points, the best one first.

    Args:
        record: Of the study.
        knobs: That are searched; others are left out. A knob of the method that the study had set
            has that value.
    """
    complete = [trial for trial in record.trials if trial.state == "complete"]
    if not complete:
        raise ConfigError(
            f"A search starts from the best trials of a study, but '{record.name}' has none with "
            "all folds yet; wait for one, or leave --start-from out."
        )
    points = []
    for trial in sorted(complete, key=rank, reverse=True)[:MOST_POINTS]:
        known = {f"method.{name}": value for name, value in trial.job.method.knobs.items()}
        values = {n: v for n, v in {**known, **trial.knobs}.items() if n in knobs}
        source = f"study {record.name}, trial {trial.number} ({trial.score:.4f})"
        points.append(StartPoint(source, values))
    return tuple(points)
