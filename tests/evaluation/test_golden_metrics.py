"""Metrics against numbers recorded from others' code."""

import numpy as np
import pytest

from hsearch.evaluation.evaluate import retrieval_metrics
from hsearch.evaluation.multilabel import label_scores
from tests import golden_files

PML_NAMES = {
    "mean_average_precision": "ap",
    "mean_average_precision_at_r": "map_at_r",
    "precision_at_1": "precision_at_1",
    "r_precision": "r_precision",
}


def of_level(metrics, level, num_levels):
    prefix = "" if level == num_levels - 1 else f"level_{level}/"
    return {name: metrics[prefix + ours] for name, ours in PML_NAMES.items()}


@pytest.mark.parametrize("name", golden_files.names("metrics_pml*"))
@pytest.mark.parametrize(
    "protocol", ["self_retrieval", "self_retrieval_avg_of_avgs", "query_gallery"]
)
def test_golden_pml(name, protocol):
    meta, arrays = golden_files.load(name)
    embeddings, labels = arrays["embeddings"].astype(np.float32), arrays["labels"]
    queries = np.arange(len(embeddings)) < int(arrays["num_query"])
    disjoint = protocol == "query_gallery"
    found = retrieval_metrics(
        embeddings,
        labels,
        queries=queries if disjoint else None,
        gallery=~queries if disjoint else None,
        whole_list=True,
        average="classes" if protocol.endswith("avg_of_avgs") else "queries",
    )
    flat = {
        f"{metric}_level{level}_coarse_to_fine": value
        for level in range(labels.shape[1])
        for metric, value in of_level(found, level, labels.shape[1]).items()
    }
    expected = meta[f"results_{protocol}"]
    assert flat.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(flat[key], value, err_msg=key, **golden_files.tolerance(meta))


@pytest.mark.parametrize("name", golden_files.names("metrics_recall*"))
def test_golden_recall(name):
    meta, arrays = golden_files.load(name)
    fine, ks = arrays["labels"][:, -1], meta["hyperparameters"]["k"]
    found = retrieval_metrics(arrays["embeddings"], fine, recall_at=ks)
    expected = [meta["recall_at_k"][str(k)] for k in ks]
    tolerance = golden_files.tolerance(meta)
    np.testing.assert_allclose([found[f"recall_at_{k}"] for k in ks], expected, **tolerance)


@pytest.mark.parametrize("name", golden_files.names("metrics_recall*"))
def test_golden_recall_in_the_ball(name):
    meta, arrays = golden_files.load(name)
    start = "recall_hyperbolic_at_"
    (key,) = (key for key in meta if key.startswith(start))
    ks = [int(k) for k in key.removeprefix(start).split("_")]
    found = retrieval_metrics(
        arrays["ball_embeddings"],
        arrays["labels"][:, -1],
        geometry="poincare",
        curvature=meta["hyperparameters"]["hyp_c"],
        recall_at=ks,
    )
    tolerance = golden_files.tolerance(meta)
    np.testing.assert_allclose([found[f"recall_at_{k}"] for k in ks], meta[key], **tolerance)


HAPPIER_NAMES = {"AP": "ap", "P@1": "precision_at_1", "mAP@R": "map_at_r", "ASI": "asi"}


def of_happier(name, num_levels):
    """Our name of a result of the official evaluator, whose level 0 is the finest."""
    metric, _, level = name.rpartition("_level")
    ours = HAPPIER_NAMES.get(metric) or metric.replace("R@", "recall_at_")
    return ours if level == "0" else f"level_{num_levels - 1 - int(level)}/{ours}"


@pytest.mark.parametrize("name", golden_files.names("metrics_happier"))
def test_golden_happier(name):
    meta, arrays = golden_files.load(name)
    parameters = meta["hyperparameters"]
    found = retrieval_metrics(
        arrays["embeddings"],
        arrays["labels"],
        recall_at=parameters["recall_k"],
        alpha=parameters["alpha"],
        whole_list=True,
    )
    depth = arrays["labels"].shape[1]
    expected = {
        of_happier(key, depth): value for key, value in meta["results"].items() if "_level" in key
    }
    expected["h_asi"] = meta["results"]["ASI_multi"]
    expected["h_ndcg"] = meta["results"]["NDCG_multi"]
    if not meta["queries_where_official_hap_deviates_from_formula"]:
        expected["h_ap"] = meta["results"]["H-AP_multi"]
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, err_msg=key, **golden_files.tolerance(meta))
    assert len(expected) > 5 * depth
    np.testing.assert_allclose(found["h_ap"], arrays["hap_per_query_exact"].mean(), rtol=1e-9)


@pytest.mark.parametrize("name", golden_files.names("metrics_happier_tie*"))
def test_golden_happier_with_levels_of_equal_relevance(name):
    """The official code counts images of such levels twice and gets values above 1."""
    meta, arrays = golden_files.load(name)
    found = retrieval_metrics(
        arrays["embeddings"],
        arrays["labels"],
        alpha=meta["hyperparameters"]["alpha"],
        whole_list=True,
    )
    np.testing.assert_allclose(found["h_ap"], arrays["hap_per_query_exact"].mean(), rtol=1e-9)


@pytest.mark.parametrize("name", golden_files.names("metrics_happier_query_gallery*"))
def test_golden_happier_query_and_gallery(name):
    """Only recall: the official code never ranks the farthest image of a disjoint gallery."""
    meta, arrays = golden_files.load(name)
    embeddings = np.concatenate([arrays["query"], arrays["gallery"]])
    labels = np.concatenate([arrays["query_labels"], arrays["gallery_labels"]])
    queries = np.arange(len(embeddings)) < len(arrays["query"])
    found = retrieval_metrics(
        embeddings,
        labels,
        queries=queries,
        gallery=~queries,
        recall_at=meta["hyperparameters"]["recall_k"],
        whole_list=True,
    )
    recalls = {key: value for key, value in meta["results"].items() if key.startswith("R@")}
    assert len(recalls) == labels.shape[1] * len(meta["hyperparameters"]["recall_k"])
    for key, value in recalls.items():
        ours = found[of_happier(key, labels.shape[1])]
        np.testing.assert_allclose(ours, value, err_msg=key, **golden_files.tolerance(meta))


def of_multilabel(name):
    """Our name of a metric such as mAP or OF1_top3."""
    return name.lower().replace("_top", "_top_")


@pytest.mark.parametrize("name", golden_files.names("metrics_multilabel*"))
@pytest.mark.parametrize("code", ["ml_gcn_logit_threshold", "mulcon_sigmoid_threshold"])
def test_golden_multilabel(name, code):
    meta, arrays = golden_files.load(name)
    (key,) = (key for key in meta["results"] if key.startswith(code))
    logits, threshold = arrays["logits"], float(key.removeprefix(code))
    scores = 1 / (1 + np.exp(-logits)) if "sigmoid" in code else logits
    found = label_scores(scores, arrays["targets"], threshold=threshold)
    expected = dict(meta["results"][key])
    ours = {"AP_per_class": found.average_precision}
    ours |= {each: found.metrics()[of_multilabel(each)] for each in expected.keys() - ours.keys()}
    assert len(expected) == 2 + 2 * 6
    for each, value in expected.items():
        np.testing.assert_allclose(ours[each], value, err_msg=each, **golden_files.tolerance(meta))
    if scores is logits:
        np.testing.assert_allclose(ours["mAP"], meta["results"]["sklearn_macro_AP"], rtol=1e-9)


def test_the_golden_metrics_are_there():
    happier = {"metrics_happier", "metrics_happier_tie", "metrics_happier_query_gallery"}
    others = {"metrics_pml", "metrics_recall", "metrics_multilabel"}
    assert others | happier <= set(golden_files.names("metrics_*"))
