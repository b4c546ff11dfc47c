"""MulCon and BCE: recorded numbers, loops over single entries and heads, limits."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsearch.errors import ConfigError
from hsearch.geometry import l2_normalise
from hsearch.methods import Setting, check_knobs, check_ranges
from hsearch.methods._layers import AttentionBlock
from hsearch.methods.bce import bce_loss, shared_label_loss
from hsearch.methods.mulcon import Loss, chosen_entries, llcl_loss
from hsearch.methods.supcon import supcon_loss
from tests.golden_files import load, names
from tests.methods.oracles import unit
from tests.methods.test_golden import close, rounding
from tests.methods.test_pairs import gradient
from tests.methods.toy import HIERARCHY, MAP_DIM, SHAPES, batch, build


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", names("mulcon_llcl*"))
def test_golden(name, dtype):
    meta, arrays = load(name)
    knobs, rtol = meta["hyperparameters"], rounding(dtype)
    labels = torch.tensor(arrays["targets"], dtype=dtype)
    x = torch.tensor(arrays["raw_embeddings"], dtype=dtype, requires_grad=True)
    z = l2_normalise(x)
    z.retain_grad()
    logits = torch.tensor(arrays["logits"], dtype=dtype, requires_grad=True)
    hard = knobs["num_hard_negatives"]
    assert chosen_entries(labels, logits, hard).tolist() == arrays["chosen_flat_index"].tolist()
    loss = llcl_loss(
        z,
        labels,
        temperature=knobs["temperature"],
        base_temperature=knobs["base_temperature"],
        logits=logits,
        hard_negatives=hard,
    )
    loss.backward()
    assert logits.grad is None
    close(loss, arrays["loss"], meta, rtol)
    close(z.grad, arrays["grad_embeddings"], meta, rtol)
    close(x.grad, arrays["grad_raw_embeddings"], meta, rtol)
    bce = bce_loss(logits, labels)
    bce.backward()
    close(bce, arrays["loss_bce"], meta, rtol)
    close(logits.grad, arrays["grad_logits_bce"], meta, rtol)
    total = knobs["coef_att"] * bce + knobs["coef_nce"] * loss
    close(total, arrays["loss_total"], meta, rtol)


def llcl_loop(z, labels, temperature, base_temperature, logits, hard_negatives):
    """One anchor and one number at a time."""
    entries = list(np.ndindex(*labels.shape))
    active = [entry for entry in entries if labels[entry]]
    others = sorted((e for e in entries if not labels[e]), key=lambda e: -logits[e])
    chosen = active + others[:hard_negatives]
    total = 0.0
    for anchor in active:
        rest = [entry for entry in chosen if entry != anchor]
        positives = [entry for entry in rest if entry in active and entry[1] == anchor[1]]
        for positive in positives:
            below = sum(math.exp(z[anchor] @ z[entry] / temperature) for entry in rest)
            share = math.exp(z[anchor] @ z[positive] / temperature) / below
            total -= math.log(share) / len(positives)
    return temperature / base_temperature * total / max(1, len(active))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(1, 6),
    num_labels=st.integers(1, 5),
    density=st.sampled_from([0.0, 0.1, 0.4, 1.0]),
    hard_negatives=st.integers(0, 8),
    temperature=st.floats(0.05, 1.0),
)
def test_llcl_loop(seed, size, num_labels, density, hard_negatives, temperature):
    """With no active label, no positives, and fewer inactive labels than asked for, too."""
    rng = np.random.default_rng(seed)
    labels = rng.random((size, num_labels)) < density
    logits = rng.normal(size=labels.shape)
    z = unit(rng.normal(size=(size * num_labels, 3))).reshape(size, num_labels, 3)
    rows = torch.tensor(z, requires_grad=True)
    loss = llcl_loss(
        rows,
        torch.tensor(labels),
        temperature=temperature,
        base_temperature=0.2,
        logits=torch.tensor(logits),
        hard_negatives=hard_negatives,
    )
    loss.backward()
    expected = llcl_loop(z, labels, temperature, 0.2, logits, hard_negatives)
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert gradient(rows).isfinite().all()


def test_with_one_label_per_image_llcl_and_shared_labels_are_supcon():
    classes = torch.tensor([0, 0, 1, 2, 2, 2])
    labels = torch.nn.functional.one_hot(classes)
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = l2_normalise(x)
    supcon = supcon_loss(x, classes, temperature=0.1, base_temperature=0.1)
    torch.testing.assert_close(shared_label_loss(x, labels, temperature=0.1), supcon)
    every = x[:, None].expand(6, 3, 4)
    llcl = llcl_loss(every, labels, temperature=0.1, base_temperature=0.1)
    torch.testing.assert_close(llcl, supcon)


def test_images_that_share_one_label_of_several_are_positives():
    labels = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 0]])
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    cosines = (l2_normalise(x) @ l2_normalise(x).T / 0.2).numpy()
    total = 0.0
    for anchor, positives in enumerate([[1, 2], [0], [0], []]):
        below = sum(math.exp(cosines[anchor, i]) for i in range(4) if i != anchor)
        terms = [math.log(below) - cosines[anchor, i] for i in positives]
        total += sum(terms) / max(1, len(terms))
    loss = shared_label_loss(l2_normalise(x), labels, temperature=0.2)
    assert float(loss) == pytest.approx(total / 4)


def layer_norm(rows):
    centred = rows - rows.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


def block_loop(block, queries, keys):
    """The attention block of one image, head by head and query by query."""

    def apply(layer, rows):
        return rows @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()

    q, k, v = (
        apply(layer, rows)
        for layer, rows in ((block.query, queries), (block.key, keys), (block.value, keys))
    )
    width = q.shape[1]
    x, weights = q.copy(), np.empty((block.heads, len(q), len(k)))
    for head in range(block.heads):
        own = slice(head * width // block.heads, (head + 1) * width // block.heads)
        for i in range(len(q)):
            numbers = np.exp([q[i, own] @ key[own] / math.sqrt(width) for key in k])
            weights[head, i] = numbers / numbers.sum()
            x[i, own] += sum(w * value[own] for w, value in zip(weights[head, i], v, strict=True))
    x = layer_norm(x)
    return layer_norm(x + np.maximum(apply(block.last, x), 0)), weights


@pytest.mark.parametrize("heads", [1, 2, 3, 6])
def test_an_attention_block_is_its_loop(heads):
    generator = torch.Generator().manual_seed(0)
    block = AttentionBlock(5, 4, 6, heads, generator).double()
    queries, keys = (
        torch.randn(2, *shape, generator=generator, dtype=torch.float64)
        for shape in ((3, 5), (7, 4))
    )
    for image in range(2):
        output, weights = block_loop(block, queries[image].numpy(), keys[image].numpy())
        np.testing.assert_allclose(block(queries, keys)[image].detach(), output, rtol=1e-9)
        np.testing.assert_allclose(block.weights(queries, keys)[image].detach(), weights, rtol=1e-9)
    shared = block(queries[0], keys)
    torch.testing.assert_close(shared, block(queries[:1].expand(2, -1, -1), keys))


def test_the_network_is_two_blocks_of_places_one_look_and_one_block_of_labels():
    method = build("mulcon").double()
    features = batch(method)[0][0].double()
    network = method.attention_network
    places = features.flatten(1).T.numpy()
    for block in network.places:
        places, _ = block_loop(block, places, places)
    found, weights = block_loop(network.look, network.queries.detach().numpy(), places)
    embedding, _ = block_loop(network.among_labels, found, found)
    with torch.no_grad():
        np.testing.assert_allclose(method.embed(features[None])[0], embedding, rtol=1e-8)
    looks = method.attention(features[None])[0]
    _, height, width = SHAPES["map"]
    expected = weights.reshape(4, HIERARCHY.num_classes, height, width).swapaxes(0, 1)
    np.testing.assert_allclose(looks, expected, rtol=1e-9)


def test_the_loss_is_bce_with_the_projected_contrast_beside_it():
    method = build("mulcon", gamma=0.3, hard_negatives=7).double()
    features, labels = batch(method)
    embeddings = method.embed(features.double())
    logits = torch.stack(
        [
            embeddings[:, t] @ method.classifiers.weight[t] + method.classifiers.bias[t]
            for t in range(HIERARCHY.num_classes)
        ],
        dim=1,
    )
    torch.testing.assert_close(method.scores(embeddings), logits)
    llcl = llcl_loss(
        l2_normalise(method.projector(embeddings)),
        labels,
        temperature=0.2,
        base_temperature=0.2,
        logits=logits,
        hard_negatives=7,
    )
    torch.testing.assert_close(method(embeddings, labels), bce_loss(logits, labels) + 0.3 * llcl)


@pytest.mark.parametrize("name", ["bce", "mulcon"])
def test_a_state_fits_whatever_gamma_is_and_only_what_is_used_is_trained(name):
    without, contrasted = build(name, gamma=0.0), build(name, gamma=0.5, seed=1)
    contrasted.load_state_dict(without.state_dict())
    features, labels = batch(without)
    for method in (without, contrasted):
        method(method.embed(features), labels).backward()
        grouped = {id(p) for group in method.parameter_groups().values() for p in group}
        for key, parameter in method.named_parameters():
            used = method is contrasted or not key.startswith("projector.")
            trained = (
                parameter.requires_grad,
                parameter.grad is not None,
                id(parameter) in grouped,
            )
            assert trained == (used, used, used), key


def test_every_parameter_has_a_gradient_without_any_label():
    """Data parallel training waits for the gradient of each."""
    for method in (build("mulcon"), build("bce", gamma=0.5)):
        features, labels = batch(method)
        method(method.embed(features), 0 * labels).backward()
        assert all(p.grad is not None for p in method.parameters())


def test_weights_are_drawn_as_torch_draws_them():
    method = build("mulcon")
    linear = [m for m in method.modules() if isinstance(m, torch.nn.Linear)]
    assert len(linear) == 4 * 4 + 1 + 2
    for layer in linear:
        bound = layer.in_features**-0.5
        assert layer.weight.abs().max() <= bound
        assert float(layer.weight.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.2)
        assert layer.bias.abs().max() <= bound
    limit = math.sqrt(6 / (HIERARCHY.num_classes + MAP_DIM))
    assert 0.9 * limit < method.label_vectors().abs().max() <= limit


@pytest.mark.parametrize(("channels", "width", "common"), [(18, 36, 18), (16, 18, 2)])
def test_heads_that_cannot_share_the_width_are_a_sentence(channels, width, common):
    setting = Setting(HIERARCHY, (channels, 2, 2), width, torch.Generator())
    sentence = (
        rf"^`heads` of mulcon must divide the backbone's channels \({channels}\) and "
        rf"`model.embedding_dim` \({width}\), but got 4; choose a divisor of {common}\.$"
    )
    with pytest.raises(ConfigError, match=sentence):
        Loss(setting, heads=4)


@pytest.mark.parametrize("heads", [1, 7, 13, 4096])
def test_any_number_of_heads_is_in_range_as_long_as_no_network_is_known(heads):
    check_ranges("mulcon", check_knobs("mulcon", {"heads": heads}))


@pytest.mark.parametrize("temperature", [1e-3, 10.0])
def test_float32_does_not_overflow(temperature):
    knobs: dict[str, Any] = {"temperature": temperature, "gamma": 1.0}
    for method in (build("mulcon", **knobs), build("bce", **knobs)):
        features, labels = batch(method)
        features = (1e3 * features).requires_grad_()
        loss = method(method.embed(features), labels)
        loss.backward()
        assert loss.isfinite()
        assert gradient(features).isfinite().all()
