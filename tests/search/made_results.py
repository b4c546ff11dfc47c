"""Jobs and results that nothing was trained for: the search's rooms are tested on the record."""

from hsearch.methods import check_knobs
from hsearch.recipes import load_recipe
from hsearch.results import EpochRecord, FoldResult
from hsearch.spec import FoldJob, MethodSpec


def made_job(method: str = "proxy_nca", seed: int = 0) -> FoldJob:
    """Fold 0 of a method with its published knobs on data that need not exist."""
    return FoldJob(
        data="made",
        data_digest="0" * 64,
        method=MethodSpec(name=method, knobs=check_knobs(method, {})),
        training=load_recipe("small", {}),
        seed=seed,
    )


def made_result(job: FoldJob, score: float, epochs: int = 2) -> FoldResult:
    """A result of the job whose last epoch is its best, with the given score."""
    history = [_epoch(number, score * number / max(1, epochs)) for number in range(epochs + 1)]
    return FoldResult(
        job=job,
        score=score,
        best_epoch=epochs,
        validation=_metrics(score),
        untrained=_metrics(0.0),
        history=tuple(history),
        stopped="epochs",
        versions={"hsearch": "0.1.0", "torch": "2.15.0"},
    )


def _epoch(number: int, score: float) -> EpochRecord:
    trained = number > 0
    return EpochRecord(
        epoch=number,
        loss=1.0 / number if trained else None,
        seconds=0.5,
        images_per_second=1000.0 if trained else None,
        lr={"backbone": 0.01, "head": 0.01, "proxies": 0.03},
        validation=_metrics(score),
    )


def _metrics(score: float) -> dict[str, float]:
    return {"map_at_r": score, "precision_at_1": min(1.0, score + 0.1), "r_precision": score}
