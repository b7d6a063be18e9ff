"""Classifiers that start from weights in a file."""

import pytest
import timm
import torch
from safetensors.torch import save_file

from tokenstn.models.pretrained import fetched, from_weights

VIT = {"embed_dim": 32, "depth": 2, "num_heads": 2}


def saved(path, classes, side=64):
    torch.manual_seed(1)
    model = timm.create_model("vit_tiny_patch16_224", num_classes=classes, img_size=side, **VIT)
    save_file(model.state_dict(), path)
    return model.eval()


def test_the_body_comes_from_the_file_and_the_head_is_new(tmp_path):
    original = saved(tmp_path / "w.safetensors", classes=10)
    model = from_weights("vit_tiny_patch16_224", tmp_path / "w.safetensors", 3, input_size=64, **VIT).eval()
    images = torch.rand(2, 3, 64, 64)
    torch.testing.assert_close(model.forward_features(images), original.forward_features(images))
    assert model(images).shape == (2, 3)


def test_a_head_of_as_many_classes_is_kept(tmp_path):
    original = saved(tmp_path / "w.safetensors", classes=3)
    model = from_weights("vit_tiny_patch16_224", tmp_path / "w.safetensors", 3, input_size=64, **VIT).eval()
    images = torch.rand(2, 3, 64, 64)
    torch.testing.assert_close(model(images), original(images))


def test_a_file_without_a_head_will_do_and_positions_follow_the_image_size(tmp_path):
    saved(tmp_path / "w.safetensors", classes=0)
    model = from_weights("vit_tiny_patch16_224", tmp_path / "w.safetensors", 5, input_size=96, **VIT)
    assert model(torch.rand(1, 3, 96, 96)).shape == (1, 5)


def test_weights_of_another_model_are_refused(tmp_path):
    saved(tmp_path / "w.safetensors", classes=3)
    with pytest.raises(ValueError, match="does not hold the weights of resnet18"):
        from_weights("resnet18", tmp_path / "w.safetensors", 3)


def test_weights_that_cannot_be_fetched_name_the_reason_and_the_remedy(monkeypatch):
    def unreachable(*_, **__):
        raise OSError("no route to host\nand many lines more")

    monkeypatch.setattr("timm.create_model", unreachable)
    monkeypatch.setattr("tokenstn.models.hub_access.can_be_looked_up", lambda _: True)
    wanted = r"^the weights of resnet18 could not be fetched \(no route to host\): ask again$"
    with pytest.raises(ValueError, match=wanted):
        fetched("resnet18", "ask again", num_classes=3)


@pytest.mark.parametrize("side", [500_000, 4097, 0, -3])
def test_a_side_that_no_image_has_is_refused(tmp_path, side):
    saved(tmp_path / "w.safetensors", classes=3)
    with pytest.raises(ValueError, match=f"--input_size {side}: the side of the images in pixels, from 1 to 4096"):
        from_weights("vit_tiny_patch16_224", tmp_path / "w.safetensors", 3, input_size=side, **VIT)
