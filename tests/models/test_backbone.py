"""Any classifier can be seen as (prefix, whole), and putting a rectifier around it changes nothing until it learns."""

import copy
import math
import pickle
import warnings

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional as F

from tokenstn import Preprocessing, TokenSTN
from tokenstn.models.backbone import Backbone, resize
from tokenstn.models.prefix import token_grid
from tokenstn.models.twin import PatchProduct

from .classifiers import ALL, BACKBONES, FIXED_SIZE, PlainCNN, hugging_face_vit, settle_batch_norm, shake, small_vit


def wrapped(name: str) -> tuple[nn.Module, TokenSTN]:
    make, shared, _ = BACKBONES[name]
    torch.manual_seed(1)  # some draws of random weights amplify a change of 1e-6 in the pixels a hundredfold
    classifier = settle_batch_norm(shake(make())).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is said of fixed sizes and hooks has tests of its own
        return classifier, TokenSTN(classifier, primitives=ALL, shared=shared).eval()


@pytest.fixture(scope="module", params=BACKBONES)
def pair(request) -> tuple[str, nn.Module, TokenSTN]:
    return request.param, *wrapped(request.param)


def images_for(model: TokenSTN, batch: int = 2) -> Tensor:
    return torch.randn(batch, 3, *model.backbone.input_size, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_a_fresh_rectifier_changes_no_probability(pair):
    _, classifier, model = pair
    images = images_for(model)
    output = classifier(images)
    bare = (output if isinstance(output, Tensor) else output.logits).softmax(-1)
    assert bare.std(0).max() > 1e-6, "the probe images must give different answers"
    torch.testing.assert_close(model(images, views=1).probabilities, bare, atol=1e-4, rtol=0)


@torch.no_grad()
def test_the_localizer_reads_at_half_the_size_where_it_can(pair):
    name, _, model = pair
    height, width = BACKBONES[name][2]
    assert model.backbone.reading_size(*model.backbone.input_size, None) == (height, width)
    assert model.backbone.any_size == (name not in FIXED_SIZE)
    tokens = model.backbone.tokens(resize(images_for(model, 1), (height, width)))
    assert tokens.shape[:2] == (1, model.backbone.token_width)
    assert tokens.ndim == 4 and tokens.shape[2] == tokens.shape[3]


@pytest.mark.parametrize("name", ["timm ViT", "Swin", "EVA02", "ResNet", "torchvision ResNet", "CNN by hand"])
@torch.no_grad()
def test_the_users_model_is_left_as_it_was(name):
    make, shared, _ = BACKBONES[name]
    classifier = make().train()
    next(classifier.children()).eval()
    before = copy.deepcopy(classifier)
    model = TokenSTN(classifier, primitives=ALL, shared=shared)
    model.localize(torch.randn(1, 3, 224, 224))
    for (key, old), (_, new) in zip(before.named_modules(), classifier.named_modules(), strict=True):
        assert old.training == new.training, key
        settings = {k: v for k, v in vars(old).items() if isinstance(v, bool | int | str | tuple)}
        assert settings == {k: v for k, v in vars(new).items() if k in settings}, key
    for key, value in before.state_dict().items():
        assert torch.equal(value, classifier.state_dict()[key]), key
    if name in ("timm ViT", "Swin", "EVA02"):
        with pytest.raises(AssertionError, match="112"):
            classifier(torch.randn(1, 3, 112, 112))


@pytest.mark.parametrize("name", ["timm ViT", "Swin", "EVA02"])
@torch.no_grad()
def test_at_full_size_the_prefix_is_the_classifiers_own_computation(name):
    classifier, model = wrapped(name)
    images = images_for(model)
    (expected,) = classifier.forward_intermediates(images, indices=[1], intermediates_only=True, output_fmt="NCHW")
    torch.testing.assert_close(model.backbone.tokens(images), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["torchvision ResNet", "torchvision ViT", "CNN by hand", "Hugging Face ViT"])
@torch.no_grad()
def test_a_prefix_by_name_is_what_a_hook_sees(name):
    classifier, model = wrapped(name)
    images = images_for(model)
    seen = []
    classifier.get_submodule(BACKBONES[name][1]).register_forward_hook(
        lambda module, inputs, output: seen.append(output)
    )
    classifier(images)
    expected = seen[0][0] if isinstance(seen[0], tuple) else seen[0]
    tokens = model.backbone.tokens(images)
    if expected.ndim == 3:  # a class token, then the patches row by row
        expected = expected[:, 1:].transpose(1, 2).reshape(tokens.shape)
    torch.testing.assert_close(tokens, expected, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_the_prefix_follows_training_casting_and_copying():
    model = TokenSTN(small_vit(), primitives=ALL).eval()
    images = torch.randn(1, 3, 32, 32)
    before = model.backbone.tokens(images)
    shake(model.classifier)
    after = model.backbone.tokens(images)
    assert not torch.allclose(before, after)
    twin = copy.deepcopy(model)
    shake(twin.classifier)
    assert torch.equal(model.backbone.tokens(images), after), "a deep copy has weights of its own"
    assert not torch.allclose(twin.backbone.tokens(images), after)
    assert model.double().backbone.tokens(images.double()).dtype == torch.float64


@pytest.mark.parametrize("name", ["timm ViT", "EVA02", "Swin", "torchvision ResNet", "CNN by hand", "Hugging Face ViT"])
@pytest.mark.filterwarnings("ignore:.*cannot read images at half size", "ignore:.*cannot be cut at")
@torch.no_grad()
def test_a_pickled_model_reads_the_same_tokens_with_weights_of_its_own(name):
    make, shared, _ = BACKBONES[name]
    model = TokenSTN(make().eval(), primitives=ALL, shared=shared).eval()
    images = images_for(model, 1)
    again = pickle.loads(pickle.dumps(model))
    before = model.backbone.tokens(images)
    assert torch.equal(again.backbone.tokens(images), before)
    shake(again.classifier)
    assert not torch.allclose(again.backbone.tokens(images), before)
    assert torch.equal(model.backbone.tokens(images), before)


@torch.no_grad()
def test_the_prefix_never_updates_batch_norm_statistics():
    model = TokenSTN(timm.create_model("resnet18", num_classes=5), primitives=ALL).train()
    before = {k: v.clone() for k, v in model.classifier.state_dict().items() if "running" in k}
    model.localize(torch.randn(4, 3, 64, 64) + 5)
    assert all(torch.equal(v, model.classifier.state_dict()[k]) for k, v in before.items())


def test_a_classifier_of_a_fixed_size_says_so_once():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        TokenSTN(hugging_face_vit(), shared="vit.layers.1")(torch.randn(1, 3, 32, 32))
    assert sum("cannot read images at half size (16×16)" in str(w.message) for w in said) == 1


class Untraceable(PlainCNN):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images if bool((images > -1e9).all()) else -images)


def test_a_module_that_cannot_be_traced_falls_back_to_a_hook_and_says_so():
    with pytest.warns(UserWarning, match="eager mode only"):
        model = TokenSTN(Untraceable(), shared="body").eval()
    assert model(torch.randn(2, 3, 32, 32), views=2).probabilities.shape == (2, 5)


@torch.no_grad()
def test_non_square_images_are_read_without_distortion():
    model = TokenSTN(PlainCNN(), shared="body").eval()
    assert model.backbone.reading_size(64, 128, None) == (32, 64)
    p = model(torch.randn(1, 3, 64, 128), views=3)
    assert p.rectified.shape == (1, 3, 64, 128)


@pytest.mark.parametrize(("height", "width"), [(256, 128), (64, 128), (64, 64)])
@pytest.mark.parametrize(("name", "layer"), [("resnet18", "layer1"), ("swin_t", "features.1")])
@torch.no_grad()
def test_the_tokens_of_a_named_layer_lie_as_the_image_does(name, layer, height, width):
    """Whichever axis the layer has its channels on, and however many there are."""
    network = torchvision.models.get_model(name, num_classes=3).eval()
    backbone = Backbone(network, layer, (height, width))
    width_of_a_token = {"resnet18": 64, "swin_t": 96}[name]
    tokens = backbone.tokens(torch.randn(1, 3, height, width))
    assert tokens.shape == (1, width_of_a_token, height // 4, width // 4)


@torch.no_grad()
def test_the_tokens_of_a_layer_that_rounds_odd_sides_up_lie_as_the_image_does():
    network = torchvision.models.get_model("swin_t", num_classes=3).eval()
    assert Backbone(network, "features.5", (224, 168)).tokens(torch.randn(1, 3, 224, 168)).shape == (1, 384, 14, 11)


def test_the_localizer_reads_at_a_share_of_the_image():
    vit = TokenSTN(timm.create_model("vit_tiny_patch16_224", depth=3, num_classes=5), localization_size=0.36)
    assert vit.backbone.reading_size(224, 224, 0.36) == (80, 80), "whole patches"
    assert vit.backbone.reading_size(224, 448, 0.5) == vit.backbone.reading_size(224, 448, None) == (112, 224)
    assert vit.localize(torch.randn(1, 3, 224, 224)).keys() == {"rotation", "scale"}
    for share in (0.0, 1.5, -0.5, math.nan, 0, -5, (-3, 5), (32,), (0.5, 0.5), [32, 32], "0.5", True):
        with pytest.raises(ValueError, match="a share of the image in"):
            TokenSTN(PlainCNN(), shared="body", localization_size=share)


@torch.no_grad()
def test_resizing_keeps_the_aspect_and_the_centre():
    rows, columns = torch.meshgrid(torch.linspace(-1, 1, 60), torch.linspace(-2, 2, 120), indexing="ij")
    image = torch.stack((rows, columns))[None]
    square = resize(image, (30, 30))[0]
    assert square[0, :, 0].amax().item() == pytest.approx(1, abs=0.1)
    assert square[1, 0].amax().item() == pytest.approx(1, abs=0.1), "a square shows the middle of a wide image"
    assert resize(image, (60, 120)) is image


@pytest.mark.parametrize(
    ("count", "height", "width", "grid"),
    [(196, 224, 224, (14, 14)), (197, 224, 224, (14, 14)), (201, 224, 224, (14, 14)), (1 + 8 * 16, 128, 256, (8, 16))],
)
def test_class_and_register_tokens_are_told_from_patches(count, height, width, grid):
    assert token_grid(count, height, width) == grid


def test_tokens_that_form_no_grid_are_refused():
    with pytest.raises(ValueError, match="60 tokens do not form a grid"):
        token_grid(60, 224, 224)


@pytest.mark.parametrize(
    ("shared", "sentence"),
    [
        ("boddy", "no layer named 'boddy'; did you mean 'body'"),
        ("head", r"\(1, 5\)"),
        (2, "name the layer that the localizer reads instead, for example shared='stem'"),
    ],
)
def test_a_wrong_layer_is_refused_with_the_remedy(shared, sentence):
    with pytest.raises(ValueError, match=sentence):
        TokenSTN(PlainCNN(), shared=shared)


@pytest.mark.parametrize("shared", [0, 4])
def test_more_layers_than_there_are_is_refused(shared):
    with pytest.raises(ValueError, match=f"shared={shared}.*from 1 to 3"):
        TokenSTN(small_vit(), shared=shared)


def test_an_input_size_that_the_classifier_refuses_is_named():
    with pytest.raises(ValueError, match=r"\(3, 8, 8\).*pass input_size"):
        Backbone(nn.Sequential(nn.Conv2d(3, 4, 16), nn.ReLU()), "1", input_size=(8, 8))


def test_at_half_size_a_pixel_is_the_mean_of_four():
    images = torch.rand(2, 3, 8, 12)
    halved = resize(images, (4, 6))
    torch.testing.assert_close(halved, images.unflatten(3, (6, 2)).unflatten(2, (4, 2)).mean((3, 5)))


@pytest.mark.parametrize(("given", "wanted"), [((224, 224), (80, 80)), ((90, 150), (42, 70)), ((28, 28), (56, 56))])
def test_other_sizes_are_torchs_antialiased_bilinear_ones(given, wanted):
    images = torch.rand(2, 3, *given)
    reference = F.interpolate(images, size=wanted, mode="bilinear", align_corners=False, antialias=True)
    torch.testing.assert_close(resize(images, wanted), reference)
    halves = resize(images.bfloat16(), wanted)
    assert halves.dtype == torch.bfloat16 and (halves.float() - reference).abs().max() < 0.01


def test_other_sizes_are_resized_without_aliasing():
    stripes = torch.zeros(1, 1, 30, 30)
    stripes[..., ::2] = 1.0
    assert (resize(stripes, (20, 20)) - 0.5).abs()[..., 2:-2].max() < 0.3


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "swin_tiny_patch4_window7_224"])
def test_patches_are_embedded_as_the_classifier_embeds_them(name):
    classifier = timm.create_model(name)
    product = PatchProduct(classifier.patch_embed.proj)
    images = torch.randn(2, 3, 67, 96)
    torch.testing.assert_close(product(images), classifier.patch_embed.proj(images), atol=1e-5, rtol=1e-5)
    assert product.weight is classifier.patch_embed.proj.weight


@pytest.mark.parametrize("options", [{}, {"no_embed_class": True}, {"class_token": False, "global_pool": "avg"}])
def test_positions_at_another_size_are_those_of_timm(options):
    classifier = small_vit(**options).eval()
    nn.init.normal_(classifier.pos_embed)
    read = Backbone(classifier, shared=1)
    height, width = (side * 3 // 4 for side in read.input_size)
    images = torch.rand(2, 3, height, width)
    able = small_vit(**options, dynamic_img_size=True).eval()
    able.load_state_dict(classifier.state_dict())
    (expected,) = able.forward_intermediates(images, indices=[0], norm=False, intermediates_only=True)
    torch.testing.assert_close(read.tokens(images), expected)


class GreyToColour(nn.Module):
    """Takes grey images to a network for coloured ones."""

    def __init__(self):
        super().__init__()
        self.network = timm.create_model("resnet18", num_classes=2)

    def forward(self, images):
        return self.network(images.expand(-1, 3, -1, -1))


class StemLast(nn.Module):
    """Its first layer is not the one that it has first."""

    def __init__(self):
        super().__init__()
        self.neck, self.stem, self.head = nn.Conv2d(16, 8, 1), nn.Conv2d(3, 16, 3, 2), nn.Linear(8, 2)

    def forward(self, images):
        return self.head(self.neck(self.stem(images)).mean((2, 3)))


@pytest.mark.parametrize(("make", "layer", "channels"), [(GreyToColour, "network.layer1", 1), (StemLast, "stem", 3)])
def test_a_classifier_takes_as_many_channels_as_its_preprocessing_has(make, layer, channels):
    how = Preprocessing((64, 64), (0.5,) * channels, (0.5,) * channels)
    model = TokenSTN(make().eval(), ("rotation",), shared=layer, input_size=(64, 64), preprocessing=how).eval()
    with torch.no_grad():
        assert model(torch.rand(2, channels, 64, 64), views=1).probabilities.shape == (2, 2)
    with pytest.raises(ValueError, match=f"the classifier takes {channels}"):
        model(torch.rand(2, 4, 64, 64), views=1)
