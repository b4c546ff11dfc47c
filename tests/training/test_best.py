from hsearch.results import EpochRecord
from hsearch.training.best import best_record, candidates


def history(*scores: float | None) -> list[EpochRecord]:
    return [
        EpochRecord(
            epoch=epoch,
            loss=None,
            seconds=1.0,
            images_per_second=None,
            lr={},
            validation=None if score is None else {"map_at_r": score},
        )
        for epoch, score in enumerate(scores)
    ]


def test_the_first_of_the_best_validated_epochs_counts_but_not_the_untrained_network(toy_job):
    job = toy_job("proxy_nca", schedule__epochs=5)
    records = history(0.9, 0.3, None, 0.5, 0.5)
    assert [record.epoch for record in candidates(job, records)] == [1, 3, 4]
    assert best_record(job, records) is records[3]
    assert best_record(job, records[:1]) is None
