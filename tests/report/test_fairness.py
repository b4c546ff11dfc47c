"""The audit says in words what was not the same for all."""

from hsearch.report.entrant import row_names
from hsearch.report.fairness import audit, told
from hsearch.spec_stage import StageSpec
from tests.report.made_reproductions import made_entrant, made_study, with_settings
from tests.search.made_results import made_job

SCORES = [0.5, 0.51, 0.52]


def findings(*entrants) -> dict[str, tuple[bool, str]]:
    names = [entrant.method for entrant in entrants]
    return {each.topic: (each.same, each.words) for each in audit(entrants, names)}


def test_equal_studies_are_told_so_line_by_line():
    found = findings(made_entrant("hpl", SCORES), made_entrant("proxy_nca", SCORES))
    assert all(same for same, _ in found.values()), found
    assert found["trials"] == (True, "All were searched with 3 trials (3 complete).")
    assert (
        found["cost of the search"][1] == "All were searched with 12 trainings of 24 epochs in all."
    )
    assert (
        found["cost of the runs"][1] == "All were reproduced with 12 trainings of 24 epochs in all."
    )
    assert found["seeds"][1] == "All were reproduced with the seeds 0 to 2."
    size = made_job("hpl").training.model.embedding_dim
    assert found["embedding size"][1] == f"The same for all: {size}."


def test_differences_are_sentences():
    job = with_settings(
        made_job("hpl"), {"model": {"pooling": "max"}, "image": {"crop": 24, "flip": 0.5}}
    )
    one = made_entrant("hpl", SCORES, study=made_study("hpl", trials=2, job=job))
    found = findings(
        one,
        made_entrant("proxy_nca", SCORES[:2], versions={"torch": "2.10.0"}),
        made_entrant("proxy_anchor", SCORES),
    )
    assert found["trials"] == (
        False,
        "hpl was searched with 2 trials (2 complete), proxy_nca and proxy_anchor with 3 trials "
        "(3 complete).",
    )
    pooling = made_job("hpl").training.model.pooling
    assert found["pooling and head"] == (
        False,
        f"model.pooling is max for hpl, but {pooling} for proxy_nca and proxy_anchor.",
    )
    assert found["image size"][1].startswith("image.crop is 24 for hpl")
    assert found["augmentation"][1].startswith("image.flip is 0.5 for hpl")
    assert found["seeds"][1] == (
        "hpl and proxy_anchor were reproduced with the seeds 0 to 2, proxy_nca with the seeds 0 "
        "and 1."
    )
    assert found["packages"] == (
        False,
        "hpl and proxy_anchor were run with torch 2.15.0, proxy_nca with torch 2.10.0.",
    )


def test_a_setting_that_all_search_may_differ_but_not_one_that_is_fixed_for_some():
    jobs = {
        method: with_settings(made_job(method), {"optimizer": {"lr": {"backbone": 1, **more}}})
        for method, more in {
            "hpl": {"proxies": 0.1},
            "triplet": {},
            "hier": {"proxies": 0.3},
        }.items()
    }
    entrants = [made_entrant(m, SCORES, study=made_study(m, job=job)) for m, job in jobs.items()]
    assert findings(*entrants)["optimiser"][0], "triplet has no proxies, the others search it"
    study = entrants[0].study
    fixed = study.model_copy(update={"spec": study.spec.model_copy(update={"space": {}})})
    found = findings(made_entrant("hpl", SCORES, study=fixed), *entrants[1:])
    assert found["optimiser"] == (
        False,
        "optimizer.lr.proxies is 0.1 for hpl, but not set for triplet, 0.3 for hier.",
    )
    assert found["searched knobs"][1] == (
        "hpl was searched with 0 free knobs, triplet and hier with 1 free knob."
    )


def test_stages_that_not_all_have_are_told():
    plain, staged = made_job("bce"), made_job("mulcon")
    stages = {"classify": StageSpec(share=0.5, batch={"views": 1})}
    training = staged.training.model_copy(update={"stages": stages})
    jobs = {"mulcon": staged.model_copy(update={"training": training}), "bce": plain}
    entrants = [made_entrant(m, SCORES, study=made_study(m, job=job)) for m, job in jobs.items()]
    assert findings(*entrants)["stages"] == (
        False,
        "stages.classify is share 0.5, batch.views 1 for mulcon, but not set for bce.",
    )
    assert findings(*entrants)["views"] == (
        False,
        "mulcon was trained with 2 views of each image, bce with 1 view of each image.",
    )
    assert findings(entrants[0])["stages"] == (True, "The same for all: classify, the rest.")
    assert findings(entrants[1])["stages"] == (True, "The same for all: one.")


def test_a_search_that_went_on_is_noticed():
    entrant = made_entrant("hpl", SCORES)
    spec = entrant.reproduction.spec.model_copy(update={"trial": 0})
    record = entrant.reproduction.model_copy(update={"spec": spec})
    (found,) = [
        each
        for each in audit([type(entrant)(entrant.study, record)], ["hpl"])
        if each.topic == "best trial of made-hpl"
    ]
    assert found.words == "made-hpl is shown by trial 0, but its best one is now trial 1."


def test_names_are_listed_as_people_do():
    assert told({"a": "x", "b": "x", "c": "x", "d": "y"}, "run") == (
        "a, b and c were run with x, d with y."
    )


def test_regimes_may_be_rows_of_one_leaderboard_and_the_audit_names_them():
    jobs = [made_job("hpl"), with_settings(made_job("hpl"), {"model": {"regime": "frozen"}})]
    studies = [made_study(f"s{number}", job=job) for number, job in enumerate(jobs)]
    entrants = [made_entrant("hpl", SCORES, study=study) for study in studies]
    assert row_names(entrants) == ["hpl (full)", "hpl (frozen)"]
    found = {finding.topic: finding for finding in audit(entrants, row_names(entrants))}
    assert not found["regime"].same
    assert "model.regime is full for hpl (full), but frozen for hpl (frozen)" in (
        found["regime"].words
    )
    assert row_names([*entrants, entrants[0]])[0] == entrants[0].study.name
