"""Numbers against references that share no code with them: integrals, by hand, and in more digits."""

import math

import pytest
import torch
from scipy import integrate

from tokenstn.geometry import Reflection, Rotation, Scale
from tokenstn.posteriors import Circular, Gaussian, Point, Student
from tokenstn.posteriors.circular import bin_angles
from tokenstn.posteriors.location_scale import circular_deviation

STEP = math.radians(10)


def ring(logits, bound=math.pi):
    return Circular(Rotation(bound), logits.reshape(-1, 36))


def peak(bin_number, height=40.0, **others):
    """Logits of one bin, and of neighbours by their distance in bins."""
    logits = torch.full((36,), -height, dtype=torch.float64)
    logits[bin_number] = 0.0
    for distance, value in others.items():
        logits[(bin_number + int(distance.lstrip("_").replace("m", "-"))) % 36] = value
    return logits


@pytest.mark.parametrize("bin_number", [0, 5, 18, 35])
def test_the_spread_of_one_bin_is_that_of_its_hat(bin_number):
    """E[cos] under a triangle of ±10°, by quadrature."""
    hat = lambda x: (1 - abs(x) / STEP) / STEP  # noqa: E731
    mean = 2 * integrate.quad(lambda x: hat(x) * math.cos(x), 0, STEP)[0]
    expected = math.sqrt(-2 * math.log(mean))
    assert ring(peak(bin_number)).spread().item() == pytest.approx(expected, rel=1e-6)


def test_the_spread_of_a_ring_is_that_of_its_density():
    generator = torch.Generator().manual_seed(3)
    belief = ring(2 * torch.randn(36, generator=generator, dtype=torch.float64))
    angles = torch.linspace(-math.pi, math.pi, 36 * 200 + 1, dtype=torch.float64)[:-1]
    density = belief.log_prob(angles.unsqueeze(0))[0].exp() * (2 * math.pi / len(angles))
    length = torch.hypot((density * angles.cos()).sum(), (density * angles.sin()).sum())
    assert belief.spread().item() == pytest.approx(math.sqrt(-2 * math.log(length)), rel=1e-4)


@pytest.mark.parametrize("versine", [1.0, 1 + 1e-7, 0.9999999])
def test_a_belief_without_any_direction_has_a_finite_spread(versine):
    found = circular_deviation(torch.tensor([versine]), torch.zeros(1))
    assert torch.isfinite(found).all() and 3.5 < found.item() < 7


@pytest.mark.parametrize("family", [Gaussian, Student])
@pytest.mark.parametrize("centre", [-2.0, 0.0, 0.7, 3.0])
def test_a_small_spread_keeps_its_digits_wherever_it_is_centred(family, centre):
    raw = torch.tensor([[centre, -3.0 if family is Gaussian else -9.0]])
    single, double = family(Rotation(), raw).spread(), family(Rotation(), raw.double()).spread()
    torch.testing.assert_close(single.double(), double, rtol=2e-4, atol=0)


@pytest.mark.parametrize("sharpness", [0.0, 1e-3, 0.02, 0.3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_entropy_is_never_above_one_nor_below_zero(sharpness, dtype):
    """Nearly uniform and nearly certain: where rounding would leave the range."""
    for seed in range(20):
        noise = torch.randn(8, 36, generator=torch.Generator().manual_seed(seed), dtype=dtype)
        found = Circular(Rotation(), sharpness * noise).entropy()
        assert (found >= 0).all() and (found <= 1).all()
    certain = Gaussian(Scale(), torch.tensor([[0.0, -8.0], [0.3, -8.0], [1e-4, -8.0]], dtype=dtype)).entropy()
    assert (certain >= 0).all() and (certain <= 1).all()


@pytest.mark.parametrize(("u", "value"), [(0.02, 1.0), (0.02, -1.0), (-0.1, 1.0), (0.3, 1.0)])
def test_a_point_on_a_mirror_is_a_soft_step_of_a_twentieth(u, value):
    found = Point(Reflection(), torch.tensor([[u]], dtype=torch.float64)).log_prob(torch.tensor([value]).double())
    assert found.item() == pytest.approx(-math.log1p(math.exp(-value * u / 0.05)))


def test_nothing_of_a_point_lies_below_it():
    belief = Point(Rotation(), torch.tensor([[0.3]], dtype=torch.float64))
    here = belief.best()
    assert belief.cdf(torch.cat((here - 1e-9, here, here + 1e-9))).flatten().tolist() == [0, 0, 1]


@pytest.mark.parametrize("side", [1, -1])
def test_views_of_a_bounded_ring_stay_inside_the_bound(side):
    """The grid is laid through a best angle that lies between bins: the outermost would leave the bound."""
    bound = math.radians(42)
    logits = torch.full((36,), -5.0, dtype=torch.float64)
    for place, value in ((1, 1.0), (2, 0.9), (3, 0.3)):
        logits[(side * place) % 36] = value
    views = ring(logits, bound).candidates(36)
    assert views.values.abs().max() <= bound + 1e-12
    assert views.values.abs().max() > math.radians(30)
    assert (views.masses > 0).all() and views.masses.sum().item() == pytest.approx(1)


@pytest.mark.parametrize("side", [1, -1])
def test_at_the_edge_of_a_bounded_ring_the_best_angle_is_the_bin_itself(side):
    """Its outer neighbour is no evidence, so that no parabola goes through it."""
    bound = math.radians(42)  # bins up to ±30°
    logits = torch.zeros(36, dtype=torch.float64)
    logits[(3 * side) % 36], logits[(2 * side) % 36] = 3.0, 2.0
    assert math.degrees(ring(logits, bound).best().item()) == pytest.approx(30 * side)
    both = ring(torch.stack([logits, 6 * torch.cos(torch.arange(36) * STEP - 0.1).double()]), bound)
    found = both.best().rad2deg().tolist()
    assert found[0] == pytest.approx(30 * side) and found[1] == pytest.approx(math.degrees(0.1), abs=0.5)


@pytest.mark.parametrize("bin_number", [0, 7, 18, 29])
@pytest.mark.parametrize(("before", "after"), [(-1.0, -3.0), (-3.0, -1.0), (-0.5, -0.5), (0.0, -9.0)])
def test_the_best_angle_is_the_top_of_the_parabola_through_three_bins(bin_number, before, after):
    found = ring(peak(bin_number, m1=before, _1=after)).best().item()
    offset = 0.5 * (before - after) / (before + after)  # of y = before, 0, after at −1, 0, 1
    away = (math.degrees(found) - 10 * (bin_number + offset) + 180) % 360 - 180
    assert abs(away) < 1e-6


def test_bins_run_from_zero_up_and_then_from_minus_pi():
    angles = bin_angles()
    assert angles.dtype == torch.float64 and angles.min().item() == -math.pi and angles.max() < math.pi
    torch.testing.assert_close(angles.rad2deg(), torch.tensor([*range(0, 180, 10), *range(-180, 0, 10)]).double())


def test_cells_of_the_circle_are_centred_on_tens_of_degrees():
    """A belief at 0° alone fills the cell around 0° and spills equally into its neighbours."""
    masses = ring(peak(0)).cell_masses()[0, 0]
    assert masses.shape == (36,) and masses.argmax().item() == 18  # the first cell is the one around ±180°
    assert masses[17].item() == pytest.approx(0.125) == masses[19].item() and masses[18].item() == pytest.approx(0.75)
    across = ring(peak(18)).cell_masses()[0, 0]
    assert across[0].item() == pytest.approx(0.75) and across[1].item() == pytest.approx(0.125)
    assert across[35].item() == pytest.approx(0.125)


@pytest.mark.parametrize("primitive", [Scale(), Rotation(1.0)], ids=repr)
def test_cells_of_an_interval_have_the_identity_in_the_middle_one(primitive):
    masses = Gaussian(primitive, torch.tensor([[0.0, -8.0]], dtype=torch.float64)).cell_masses()[0, 0]
    assert masses.shape == (37,) and masses.argmax().item() == 18 and masses.sum().item() == pytest.approx(1)
    torch.testing.assert_close(masses, masses.flip(0))
