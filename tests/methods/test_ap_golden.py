"""Smooth-AP, ROADMAP and HAPPIER against numbers recorded from the official implementations."""

from typing import Any

import pytest
import torch

from hsearch.geometry import l2_normalise
from hsearch.hierarchy import Hierarchy
from hsearch.methods import Setting, load_method
from hsearch.methods._ap import LowerStep, UpperStep
from hsearch.methods.happier import hap_loss
from hsearch.methods.roadmap import calibration_loss, sup_ap_loss
from hsearch.methods.smooth_ap import smooth_ap_loss
from tests.golden_files import load, names
from tests.methods.test_golden import close, rounding
from tests.methods.toy import build

DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
EXACT = {"suggested_rtol": 1e-9, "suggested_atol": 1e-11}


def steps_of(knobs):
    lower = LowerStep(knobs["beta"], knobs["gamma"], knobs["leak"]) if "beta" in knobs else None
    upper = UpperStep(*(knobs[key] for key in ("tau", "rho", "delta", "start", "offset")))
    return upper, lower if knobs.get("with_hrank") else None


def golden_loss(name, knobs, x, labels, references=None, reference_labels=None):
    if name.startswith("smooth_ap"):
        return smooth_ap_loss(x, labels[:, -1], tau=knobs.get("tau", knobs.get("anneal")))
    step, hrank_step = steps_of(knobs)
    if name.startswith("roadmap"):
        classes = None if reference_labels is None else reference_labels[:, -1]
        lists = {"references": references, "reference_classes": classes}
        return sup_ap_loss(x, labels[:, -1], step=step, **lists)
    return hap_loss(
        x,
        labels,
        step=step,
        hrank_step=hrank_step,
        relevance=knobs["relevance_type"],
        alpha=knobs.get("alpha", 1.0),
        weights=knobs.get("weights_coarse_to_fine"),
        references=references,
        reference_labels=reference_labels,
    )


@DTYPES
@pytest.mark.parametrize(
    "name", [*names("hap_surrogate*"), *names("roadmap_supap*"), *names("smooth_ap*")]
)
def test_golden_rankings(name, dtype):
    meta, arrays = load(name)
    raw = torch.tensor(arrays["raw_embeddings"], dtype=dtype, requires_grad=True)
    x, labels = l2_normalise(raw), torch.tensor(arrays["labels"])
    x.retain_grad()
    lists = [
        torch.tensor(arrays[key], dtype=kind)
        for key, kind in [("ref_embeddings", dtype), ("ref_labels", None)]
        if key in arrays
    ]
    loss = golden_loss(name, meta["hyperparameters"], x, labels, *lists)
    loss.backward()
    got = {"loss": loss, "grad_embeddings": x.grad, "grad_raw_embeddings": raw.grad}
    for key, value in got.items():
        close(value, arrays[key], meta, rounding(dtype))
        if f"{key}_exact_relevance" in arrays:
            close(value, arrays[f"{key}_exact_relevance"], EXACT, rounding(dtype))
    key = "hap_per_query" if name.startswith("hap") else "ap_per_query"
    for row, precision in enumerate(arrays.get(key, ())):
        one = slice(row, row + 1)
        loss = golden_loss(name, meta["hyperparameters"], x[one], labels[one], x, labels)
        close(1.0 - loss, precision, meta, rounding(dtype))


@DTYPES
@pytest.mark.parametrize("name", names("happier_total_*"))
def test_golden_happier(name, dtype):
    meta, arrays = load(name)
    knobs, table = meta["hyperparameters"], arrays["class_table"]
    dim = arrays["proxies"].shape[1]
    hierarchy = Hierarchy.from_names([tuple(map(str, path)) for path in table])
    loss_class: Any = load_method("happier")
    method = loss_class(
        Setting(hierarchy, (dim,), dim, torch.Generator()),
        alpha=knobs["alpha"],
        relevance=knobs["relevance_type"].split()[0],
        clustering_weight=knobs["lambda"],
        temperature=knobs["cluster_temperature"],
        hrank=knobs["with_hrank"],
        hrank_slope=knobs["beta"],
        hrank_start=knobs["gamma"],
        hrank_leak=knobs["leak"],
        **{key: knobs[key] for key in ("tau", "rho", "delta", "start", "offset")},
    ).to(dtype)
    method.load_state_dict({"proxies": torch.tensor(arrays["proxies"])}, strict=False)
    raw = torch.tensor(arrays["raw_embeddings"], dtype=dtype, requires_grad=True)
    loss = method(method.embed(raw), torch.tensor(arrays["labels"]))
    loss.backward()
    close(loss, arrays["loss"], meta, rounding(dtype))
    close(raw.grad, arrays["grad_raw_embeddings"], meta, rounding(dtype))
    close(method.proxies.grad, arrays["grad_proxies"], meta, rounding(dtype))


@DTYPES
@pytest.mark.parametrize("name", [*names("roadmap_total*"), *names("roadmap_calibration*")])
def test_golden_roadmap(name, dtype):
    meta, arrays = load(name)
    knobs = meta["hyperparameters"]
    margins = {
        "positive_margin": knobs["pos_margin"],
        "negative_margin": knobs["neg_margin"],
    }
    raw = torch.tensor(arrays["raw_embeddings"], dtype=dtype, requires_grad=True)
    labels = torch.tensor(arrays["labels"])
    if name.startswith("roadmap_calibration"):
        loss = calibration_loss(l2_normalise(raw), labels[:, -1], **margins)
    else:
        step = {key: knobs[key] for key in ("tau", "rho", "delta", "start", "offset")}
        weight = knobs["weight_calibration"] / knobs["weight_supap"]
        method = build("roadmap", calibration_weight=weight, **margins, **step)
        loss = knobs["weight_supap"] * method(method.embed(raw), labels)
    loss.backward()
    close(loss, arrays["loss"], meta, rounding(dtype))
    close(raw.grad, arrays["grad_raw_embeddings"], meta, rounding(dtype))
