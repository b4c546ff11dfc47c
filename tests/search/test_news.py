"""News of a search: what is kept of it, and that nothing but news is written."""

from threading import Event

import pytest

from hsearch.errors import ClusterError, HsearchError
from hsearch.results import EpochRecord
from hsearch.search.news import MOST_SENTENCES, News, Newsroom, read_news
from hsearch.search.study import Study
from hsearch.search.watch import Watch
from tests.search.made_study import finish, fold_of, formula


class Ears(Watch):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def said(self, sentence):
        self.heard.append(sentence)

    def trial(self, record):
        self.heard.append((record.number, len(record.folds)))

    def epoch(self, number, fold, record):
        self.heard.append((number, fold, record.epoch))

    def groups(self, alive, wanted):
        self.heard.append((alive, wanted))


def epoch(number: int) -> EpochRecord:
    scores = {"map_at_r": 0.25, "ap": 0.5}
    return EpochRecord(
        epoch=number,
        loss=1.0,
        seconds=1.0,
        images_per_second=9.0,
        lr={"head": 0.1},
        validation=scores,
    )


def news_of(study: Study) -> News:
    news = read_news(study)
    assert news is not None
    return news


def test_everything_is_passed_on_and_kept(opened):
    study, ears = opened(), Ears()
    trial = study.propose()
    with Newsroom(study, 7, ears, Event()) as newsroom:
        assert read_news(study) == News(trials=7)
        newsroom.said("2 nodes")
        newsroom.groups(1, 2)
        newsroom.trial(trial)
        newsroom.epoch(0, 0, epoch(3))
        newsroom.publish()
        news = news_of(study)
    assert ears.heard == ["2 nodes", (1, 2), (0, 0), (0, 0, 3)]
    assert (news.alive, news.wanted, news.sentences) == (1, 2, {0: "2 nodes"})
    (running,) = news.running
    assert (running.trial, running.fold, running.last.epoch) == (0, 0, 3)
    assert running.last.validation == {"map_at_r": 0.25}
    assert news_of(study).running == (), "nothing is in training when the driver has ended"


def test_a_finished_fold_is_no_longer_running_even_if_its_epoch_comes_late(opened):
    study = opened()
    trial = study.propose()
    newsroom = Newsroom(study, 7, Watch(), Event())
    newsroom.epoch(0, 0, epoch(1))
    newsroom.trial(study.record_fold(0, formula(fold_of(trial, 0))))
    newsroom.epoch(0, 0, epoch(2))
    newsroom.epoch(0, 1, epoch(1))
    newsroom.publish()
    assert [(r.trial, r.fold) for r in news_of(study).running] == [(0, 1)]
    newsroom.trial(finish(study, study.record().trials[0]))
    newsroom.publish()
    assert news_of(study).running == ()


def test_the_last_sentences_keep_their_numbers(opened):
    study = opened()
    newsroom = Newsroom(study, 7, Watch(), Event())
    for number in range(MOST_SENTENCES + 3):
        newsroom.said(f"sentence {number}")
    newsroom.publish()
    sentences = news_of(study).sentences
    assert len(sentences) == MOST_SENTENCES
    assert all(sentence == f"sentence {number}" for number, sentence in sentences.items())


def test_only_news_are_written_and_again_after_a_failure(opened, monkeypatch):
    study = opened()
    written = []
    monkeypatch.setattr(study, "set_attribute", lambda key, value: written.append(key))
    newsroom = Newsroom(study, 7, Watch(), Event())
    newsroom.publish()
    newsroom.publish()
    assert written == ["news"]

    def fail(key, value):
        raise HsearchError("The storage no longer answers.")

    newsroom.groups(1, 1)
    with monkeypatch.context() as patch:
        patch.setattr(study, "set_attribute", fail)
        with pytest.raises(HsearchError):
            newsroom.publish()
    newsroom.publish()
    assert written == ["news", "news"]


def test_why_a_search_has_ended_is_the_last_sentence(opened):
    study = opened()
    with pytest.raises(ClusterError), Newsroom(study, 7, Watch(), Event()):
        raise ClusterError("No worker group could be started.")
    assert news_of(study).sentences == {
        0: "The search has ended: No worker group could be started."
    }


def test_who_has_lost_the_study_leaves_the_news_to_its_new_driver(opened):
    study, lost = opened(), Event()
    with Newsroom(study, 7, Watch(), lost) as newsroom:
        lost.set()
        study.set_attribute("news", News(trials=9).to_dict())
        newsroom.said("Another driver has taken over.")
    assert read_news(study) == News(trials=9)
