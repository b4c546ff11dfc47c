import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsearch import geometry
from tests import golden_files


def ball_points(seed: int, n: int, dim: int, curvature: float, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(n, dim, generator=generator, dtype=dtype)
    return geometry.exp_map_zero(geometry.clip_norm(u, 2.0), curvature)


def moebius_distance(x, y, c):
    """One pair, written from the definition of the Moebius sum, without small constants."""
    x = -x
    xy, xx, yy = x @ y, x @ x, y @ y
    top = (1 + 2 * c * xy + c * yy) * x + (1 - c * xx) * y
    norm = np.linalg.norm(top / (1 + 2 * c * xy + c * c * xx * yy))
    return 2 / np.sqrt(c) * np.arctanh(np.sqrt(c) * norm)


@pytest.mark.parametrize("name", golden_files.names("hier_geometry*"))
def test_golden_hier_geometry(name):
    meta, arrays = golden_files.load(name)
    c, radius = meta["hyperparameters"]["c"], meta["hyperparameters"]["clip_r"]
    u = torch.tensor(arrays["u"], requires_grad=True)
    ball_u = geometry.exp_map_zero(geometry.clip_norm(u, radius), c)
    ball_v = geometry.exp_map_zero(geometry.clip_norm(torch.tensor(arrays["v"]), radius), c)
    (ball_u * torch.tensor(arrays["grad_weight"])).sum().backward()
    assert u.grad is not None
    found = {
        "expmap0_projected_noclip": geometry.exp_map_zero(u, c),
        "ball_u_clipped": ball_u,
        "ball_v_clipped": ball_v,
        "grad_u_of_sum_weight_times_ball_u_clipped": u.grad,
        "dist_u_v": geometry.poincare_distances(ball_u, ball_v, c),
        "logmap0_of_ball_v": geometry.log_map_zero(ball_v, c),
    }
    for key, value in found.items():
        np.testing.assert_allclose(
            value.detach().numpy(), arrays[key], err_msg=key, **golden_files.tolerance(meta)
        )


def test_the_golden_geometry_is_there():
    assert "hier_geometry" in golden_files.names("hier_geometry*")


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.floats(0.01, 1.0), st.integers(1, 6))
def test_distances_are_those_of_the_moebius_sum(seed, curvature, dim):
    x, y = ball_points(seed, 4, dim, curvature), ball_points(seed + 1, 3, dim, curvature)
    expected = [[moebius_distance(a, b, curvature) for b in y.numpy()] for a in x.numpy()]
    found = geometry.poincare_distances(x, y, curvature)
    # The published code adds 1e-5 to the denominator, so only nearly.
    np.testing.assert_allclose(found.numpy(), expected, rtol=5e-3)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.floats(0.01, 1.0))
def test_order_is_the_closed_form_of_the_distance(seed, curvature):
    x, y = ball_points(seed, 5, 4, curvature), ball_points(seed + 1, 6, 4, curvature)
    order = geometry.poincare_order(x, y, curvature)
    expected = [[moebius_distance(a, b, curvature) for b in y.numpy()] for a in x.numpy()]
    np.testing.assert_allclose(torch.acosh(1 + order) / curvature**0.5, expected, rtol=1e-6)


def test_small_balls_tend_to_twice_the_euclidean_distance():
    x, y = (
        torch.randn(3, 5, dtype=torch.float64) * 0.1,
        torch.randn(4, 5, dtype=torch.float64) * 0.1,
    )
    found = geometry.poincare_distances(x, y, 1e-6)
    np.testing.assert_allclose(found, 2 * torch.cdist(x, y), rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_map_undoes_exp_map(dtype):
    u = torch.tensor([[0.5, -1.0, 0.25], [0.0, 0.0, 0.0], [1e-3, 0.0, 2.0]], dtype=dtype)
    back = geometry.log_map_zero(geometry.exp_map_zero(u, 0.1), 0.1)
    assert back.dtype == dtype
    np.testing.assert_allclose(back.numpy(), u.numpy(), rtol=1e-5, atol=1e-6)


def test_far_vectors_stay_inside_the_ball_with_finite_gradients():
    u = torch.tensor([[1e4, 0.0], [0.0, -1e30], [0.0, 0.0]], requires_grad=True)
    ball = geometry.exp_map_zero(u, 0.5)
    assert ball.norm(dim=1).max() <= 0.9991 / 0.5**0.5
    geometry.poincare_distances(ball, ball, 0.5).sum().backward()
    assert u.grad is not None
    assert torch.isfinite(u.grad).all()


def test_riemannian_gradient_uses_the_curvature_of_its_own_call():
    gradients = []
    for curvature in (0.1, 0.9):
        u = torch.full((1, 2), 0.3, dtype=torch.float64, requires_grad=True)
        point = geometry.exp_map_zero(u, curvature)
        geometry.exp_map_zero(torch.ones(1, 2), 5.0)  # another curvature in between
        (plain,) = torch.autograd.grad(_plain_exp(u, curvature).sum(), u)
        (riemannian,) = torch.autograd.grad(point.sum(), u)
        scale = (1 - curvature * point.square().sum()) ** 2 / 4
        np.testing.assert_allclose(riemannian, plain * scale.detach(), rtol=1e-12)
        gradients.append(riemannian)
    assert not torch.allclose(gradients[0], gradients[1])


def _plain_exp(u, c):
    norm = c**0.5 * u.norm()
    return torch.tanh(norm) * u / norm


def test_gradient_of_distances_is_that_of_finite_differences():
    x, y = ball_points(0, 4, 3, 0.3).requires_grad_(), ball_points(1, 3, 3, 0.3).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: geometry.poincare_distances(a, b, 0.3), (x, y))


def test_points_have_distance_and_gradient_zero_to_themselves():
    x = ball_points(0, 4, 3, 0.3).requires_grad_()
    own = geometry.poincare_distances(x, x, 0.3).diagonal()
    own.sum().backward()
    assert own.abs().max() == 0
    assert x.grad is not None
    assert x.grad.abs().max() == 0


def test_clip_norm_shortens_only_long_rows():
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4]], dtype=torch.float64)
    clipped = geometry.clip_norm(x, 2.0)
    np.testing.assert_allclose(clipped, [[1.2, 1.6], [0.3, 0.4]], rtol=1e-5)


def test_sphere_functions():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    y = torch.tensor([[0.0, 2.0], [-3.0, -4.0], [1.0, 0.0]])
    np.testing.assert_allclose(geometry.l2_normalise(x), [[0.6, 0.8], [0.0, 0.0]], rtol=1e-6)
    expected = [[0.8, -1.0, 0.6], [0.0, 0.0, 0.0]]
    np.testing.assert_allclose(geometry.cosine_similarities(x, y), expected, rtol=1e-6)
    np.testing.assert_allclose(geometry.squared_distances(x, y), [[13, 100, 20], [4, 25, 1]])


@pytest.mark.parametrize("curvature", [0.0, -1.0, float("nan"), float("inf")])
def test_curvature_must_be_positive(curvature):
    with pytest.raises(ValueError, match="curvature"):
        geometry.poincare_distances(torch.zeros(1, 2), torch.zeros(1, 2), curvature)
