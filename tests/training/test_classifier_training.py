"""What a classifier that is trained first gets to see, and how fast its parts learn."""

from dataclasses import replace

import timm
import torch
from torch import Tensor, nn

from tokenstn import Preprocessing
from tokenstn.training.classifier_training import ClassifierTraining
from tokenstn.training.recipes import CLASSIFIER, FINE_TUNED

PREPARED = Preprocessing(size=(24, 24), mean=(0.0,), std=(1.0,))


class Seen(nn.Module):
    """Answers nothing of interest, and keeps the images."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(1, 2)
        self.images = torch.empty(0)

    def forward(self, images: Tensor) -> Tensor:
        self.images = images
        return self.head(images.mean((1, 2, 3), keepdim=False).unsqueeze(-1))


def seen(mirror: bool, images: Tensor) -> Tensor:
    network = Seen()
    training = ClassifierTraining(network, replace(CLASSIFIER, mirror=mirror), PREPARED, seed=0)
    count = len(images)
    training.loss(images, {"label": torch.zeros(count, dtype=torch.long), "index": torch.arange(count)})
    return network.images


def quadrants(images: Tensor) -> Tensor:
    """Which quadrant is the brightest: 0 top left, 1 top right, 2 bottom left, 3 bottom right."""
    return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1).argmax(1)


def test_mirrored_images_are_mirrored_left_to_right_and_stay_upright():
    images = torch.zeros(200, 1, 24, 24)
    images[:, :, 2:10, 2:10] = 1.0
    assert set(quadrants(seen(False, images)).tolist()) == {0}
    found = quadrants(seen(True, images))
    assert set(found.tolist()) == {0, 1}
    assert 70 < int((found == 1).sum()) < 130


def batch_of(count: int, labels: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"image": torch.zeros(count, 1, 24, 24, dtype=torch.uint8), "label": labels, "index": torch.arange(count)}


def test_a_label_that_is_surely_wrong_is_learned_from():
    network = Seen()
    training = ClassifierTraining(network, replace(CLASSIFIER, label_smoothing=0.0), PREPARED, 0, multi_label=True)
    with torch.no_grad():
        network.head.bias.fill_(20.0)  # sigmoid is exactly 1
    batch = batch_of(4, torch.zeros(4, 2))
    loss = training.loss(torch.zeros(4, 1, 24, 24), batch)
    loss.backward()
    torch.testing.assert_close(loss.detach(), torch.tensor(20.0))
    torch.testing.assert_close(network.head.bias.grad, torch.tensor([0.5, 0.5]))  # of a mean over two labels


def test_the_loss_of_an_epoch_is_a_mean_over_the_images_with_a_label():
    network = Seen()
    training = ClassifierTraining(network, replace(CLASSIFIER, label_smoothing=0.0), PREPARED, seed=0)
    with torch.no_grad():
        network.head.weight.zero_()
        network.head.bias.copy_(torch.tensor([5.0, 0.0]))
    one = torch.tensor([1, -1, -1, -1])  # the others have no label
    losses = [training.training_step(batch_of(4, labels), 0) for labels in (one, torch.zeros(4, dtype=torch.long))]
    (sums,) = training._sums.values()
    total, count = sums[:, 0]
    torch.testing.assert_close(total / count, (losses[0] + 4 * losses[1]).detach() / 5)


def test_a_new_head_learns_at_its_own_rate():
    network = timm.create_model("vit_tiny_patch16_224", num_classes=3, img_size=32, embed_dim=32, depth=1, num_heads=2)
    body, head = ClassifierTraining(network, FINE_TUNED, PREPARED, seed=0).trained_groups()
    assert head["lr"] == FINE_TUNED.head_rate and "lr" not in body
    assert [parameter.shape for parameter in head["params"]] == [(3, 32), (3,)]
    every = sum(parameter.numel() for parameter in network.parameters())
    assert sum(parameter.numel() for group in (body, head) for parameter in group["params"]) == every
