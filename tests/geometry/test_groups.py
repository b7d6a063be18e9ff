"""Finite sets of poses and the orbits of images under them."""

import math

import pytest
import torch

from tokenstn.geometry import (
    GROUPS,
    Group,
    Orbit,
    Pose,
    group,
    invert,
    reflection_group,
    rotation_group,
    rotoscale_group,
    scale_group,
    shear_rotoscale_group,
    translation_group,
    warp,
)
from tokenstn.geometry.groups import LARGEST_ORDER

EVERY = [
    rotation_group(7),
    scale_group(4),
    rotoscale_group(6, 3),
    shear_rotoscale_group(4),
    reflection_group(),
    translation_group(3),
]
every = pytest.mark.parametrize("elements", EVERY, ids=lambda g: g.name)


def images(count=3, seed=0):
    return torch.rand(count, 2, 9, 9, generator=torch.Generator().manual_seed(seed))


def assert_closed(elements):
    matrices = elements.poses.matrix
    products = (matrices[:, None] @ matrices[None]).flatten(0, 1)
    distances = (products[:, None] - matrices[None]).abs().amax((-2, -1))
    assert distances.amin(1).max() < 1e-12  # float64 rounding


@pytest.mark.parametrize("order", [1, 2, 4, 7, 16])
def test_a_product_of_rotations_of_the_group_is_in_the_group(order):
    assert_closed(rotation_group(order))


def test_two_mirrors_are_none():
    assert_closed(reflection_group())


@every
def test_the_identity_comes_first_and_every_element_once(elements):
    matrices = elements.poses.matrix
    torch.testing.assert_close(matrices[0], torch.eye(3, dtype=torch.float64), rtol=0, atol=0)
    assert len(torch.unique(matrices.flatten(1).round(decimals=9), dim=0)) == len(elements) == len(matrices)


def test_orders_count_the_elements():
    assert len(rotation_group(16)) == len(scale_group(16)) == 16
    assert len(rotoscale_group(16)) == 256
    assert len(rotoscale_group(16, 3)) == len(shear_rotoscale_group(16, 3)) == 48
    assert len(translation_group(5)) == 25
    assert len(reflection_group(2)) == 2


def test_scales_are_evenly_spaced_down_to_the_smallest():
    scales = scale_group(6, smallest=0.5).poses.scale
    assert scales[0] == 1 and scales[-1].item() == pytest.approx(0.5)
    torch.testing.assert_close(scales.diff(), torch.full((5,), -0.1, dtype=torch.float64))


def test_shifts_reach_the_largest_each_way():
    shifts = translation_group(5, largest=0.2).poses.translation
    torch.testing.assert_close(shifts.amax(0), torch.tensor([0.2, 0.2], dtype=torch.float64))
    torch.testing.assert_close(shifts.amin(0), torch.tensor([-0.2, -0.2], dtype=torch.float64))


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_is_found_by_its_name(name):
    order = {"reflection": 2, "translation": 3}.get(name, 4)
    found = group(name, order)
    assert found.name == name
    torch.testing.assert_close(found.poses.matrix, GROUPS[name](order).poses.matrix)


@every
def test_an_orbit_holds_the_direct_warps(elements):
    batch = images()
    orbit = Orbit(batch, elements, padding="border", mode="bicubic")
    assert len(orbit) == len(elements)
    for k in range(len(elements)):
        applied = invert(orbit.matrices(k)).float()
        torch.testing.assert_close(orbit[k], warp(batch, applied, padding="border", mode="bicubic"))
        if not elements.first_shear:
            torch.testing.assert_close(orbit.matrices(k), elements.poses[k].matrix.expand(3, 3, 3))


@every
def test_iterating_an_orbit_gives_poses_and_images_in_order(elements):
    orbit = Orbit(images(), elements)
    pairs = list(orbit)
    assert len(pairs) == len(orbit)
    for k, (matrices, copies) in enumerate(pairs):
        torch.testing.assert_close(matrices, orbit.matrices(k))
        torch.testing.assert_close(copies, orbit[k])


def test_the_first_of_an_orbit_is_the_batch_itself():
    torch.testing.assert_close(Orbit(images(), rotation_group(4))[0], images())


def test_the_second_quarter_turn_of_an_orbit_lies_clockwise():
    torch.testing.assert_close(Orbit(images(), rotation_group(4))[1], torch.rot90(images(), -1, (2, 3)))


def test_a_shear_rotoscale_orbit_shears_first_then_turns_and_scales():
    orbit = Orbit(images(), shear_rotoscale_group(4, 2))
    sheared = orbit.matrices(0)
    assert bool((sheared[:, 0, 1].abs() > 0).all())
    torch.testing.assert_close(sheared[:, [0, 1, 1], [0, 0, 1]], torch.tensor([1.0, 0.0, 1.0]).double().expand(3, 3))
    for k in range(len(orbit)):
        torch.testing.assert_close(orbit.matrices(k), orbit.group.poses[k].matrix @ sheared)


def first_shears(index, seed=0, shear=0.25):
    index = torch.tensor(index)
    orbit = Orbit(torch.zeros(len(index), 1, 4, 4), shear_rotoscale_group(2, shear=shear), index=index, seed=seed)
    return orbit.matrices(0)[:, 0, 1]


def test_the_shear_of_an_image_does_not_depend_on_its_batch():
    together = first_shears([5, 9, 1000, 70000])
    torch.testing.assert_close(first_shears([70000, 5]), together[[3, 0]], rtol=0, atol=0)
    torch.testing.assert_close(first_shears([9]), together[[1]], rtol=0, atol=0)


def test_the_shear_of_an_image_depends_on_the_seed_and_on_the_image():
    assert not torch.allclose(first_shears([0, 1, 2], seed=0), first_shears([0, 1, 2], seed=1))
    assert len(first_shears(list(range(50))).unique()) == 50


def test_first_shears_fill_their_range_evenly():
    shears = first_shears(list(range(2000)), shear=0.5)
    assert shears.abs().max() <= 0.5
    # a uniform spread of 1 / √3 of the range; 2000 draws know it to about one per cent
    assert shears.std().item() == pytest.approx(0.5 / math.sqrt(3), rel=0.05)
    assert shears.mean().abs() < 0.03


def test_a_group_of_ones_own_keeps_all_of_its_pose():
    poses = Pose.of(shear=torch.tensor([0.0, 0.3]).double(), stretch=torch.tensor([1.0, 1.5]).double())
    orbit = Orbit(images(), Group("own", poses))
    torch.testing.assert_close(orbit.matrices(1), poses.matrix[1].expand(3, 3, 3))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float64])
def test_an_orbit_keeps_the_dtype_of_its_images(dtype):
    assert Orbit((images() * 200).to(dtype), rotation_group(3))[1].dtype == dtype


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: rotation_group(0), "a rotation group needs an order of at least 1, got 0"),
        (lambda: scale_group(-1), "a scale group needs an order of at least 1"),
        (lambda: rotoscale_group(4, 0), "a scale group needs an order of at least 1"),
        (lambda: scale_group(4, smallest=0.0), "smallest scale of a group"),
        (lambda: scale_group(4, smallest=1.5), "smallest scale of a group"),
        (lambda: shear_rotoscale_group(4, shear=0.0), "shear of a group"),
        (lambda: reflection_group(3), "the reflection group has order 2, got 3"),
        (lambda: translation_group(4), "odd order, got 4"),
        (lambda: translation_group(-1), "at least 1"),
        (lambda: translation_group(3, largest=0.0), "largest shift"),
        (lambda: group("dihedral", 4), "unknown group 'dihedral'; there are rotation"),
        (lambda: Orbit(images(), rotation_group(2), index=torch.arange(2)), "3 images need an index of shape"),
    ],
)
def test_wrong_groups_are_refused_with_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize("k", [-1, 4])
def test_an_element_outside_the_group_is_refused(k):
    with pytest.raises(IndexError, match="of a group of order 4"):
        Orbit(images(), rotation_group(4))[k]


def test_groups_have_the_orders_of_the_paper_by_default():
    assert (len(rotation_group()), len(scale_group()), len(rotoscale_group())) == (16, 16, 256)
    assert (len(shear_rotoscale_group()), len(reflection_group()), len(translation_group())) == (256, 2, 9)


def test_scales_run_evenly_from_one_to_the_smallest():
    assert scale_group(2).poses.scale.tolist() == pytest.approx([1, 0.75])
    assert scale_group(3, smallest=0.5).poses.scale.tolist() == pytest.approx([1, 0.75, 0.5])
    assert scale_group(3, smallest=1.0).poses.scale.tolist() == [1, 1, 1]
    assert scale_group(1).poses.scale.tolist() == [1]
    assert group("scale", 2, smallest=0.25).poses.scale.tolist() == pytest.approx([1, 0.25])


@pytest.mark.parametrize("make", [rotoscale_group, shear_rotoscale_group])
def test_every_rotation_comes_in_every_scale_rotation_fastest(make):
    poses = make(4, scales=3, smallest=0.5).poses
    assert poses.rotation.tolist() == pytest.approx([0, math.pi / 2, math.pi, 3 * math.pi / 2] * 3)
    assert poses.scale.tolist() == pytest.approx([1] * 4 + [0.75] * 4 + [0.5] * 4)
    square = make(3).poses
    assert square.scale.tolist() == pytest.approx([1] * 3 + [0.875] * 3 + [0.75] * 3)


@pytest.mark.parametrize("largest", [0.1, 1.0, math.pi])
def test_first_shears_fill_their_range(largest):
    orbit = Orbit(images(200), shear_rotoscale_group(1, shear=largest))
    shears = orbit.matrices(0)[:, 0, 1]
    assert (
        0.8 * largest < shears.abs().max() <= largest and shears.min() < -0.5 * largest < 0.5 * largest < shears.max()
    )


def test_the_seed_of_an_orbit_is_zero_unless_given():
    elements = shear_rotoscale_group(1)
    assert torch.equal(Orbit(images(), elements).matrices(0), Orbit(images(), elements, seed=0).matrices(0))
    assert not torch.equal(Orbit(images(), elements).matrices(0), Orbit(images(), elements, seed=1).matrices(0))


@pytest.mark.parametrize("make", [rotation_group, scale_group, translation_group])
def test_an_order_below_one_is_refused_by_the_name_of_the_group(make):
    with pytest.raises(ValueError, match=f"^a {make.__name__.removesuffix('_group')} group .*-1$"):
        make(-1)


def test_orders_have_a_limit():
    assert len(rotation_group(LARGEST_ORDER)) == LARGEST_ORDER
    with pytest.raises(ValueError, match=r"^a scale group .*1,000.*got 1001$"):
        scale_group(LARGEST_ORDER + 1)


def test_shifts_are_a_centred_grid_nearest_first():
    shifts = translation_group(3, largest=0.3).poses.translation
    assert shifts[0].tolist() == [0, 0]
    assert shifts.norm(dim=-1).diff().min() > -1e-12
    assert sorted({round(value, 9) for value in shifts.flatten().tolist()}) == [-0.3, 0.0, 0.3]
    assert translation_group(1).poses.translation.tolist() == [[0, 0]]
    assert translation_group(5, largest=0.4).poses.translation.abs().max() == pytest.approx(0.4)
