"""The twin that the localizer reads: it follows the classifier, and leaves it as it was, whatever that is made of."""

import pytest
import timm
import torch
from torch import Tensor, fx, nn

import tokenstn
from tokenstn import TokenSTN
from tokenstn.models.reading import usual_reading

from .classifiers import PlainCNN, shake, small_vit


def with_cached_biases() -> nn.Module:
    """An attention that keeps what it has made of its biases, once it is in evaluation mode."""
    torch.manual_seed(0)
    return shake(timm.create_model("levit_128s", num_classes=3)).eval()


def shift_biases(classifier: nn.Module) -> None:
    with torch.no_grad():
        for name, parameter in classifier.named_parameters():
            if name.endswith("attention_biases"):
                parameter.normal_()


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:LevitDistilled cannot read images at half size")
def test_tokens_are_made_with_the_weights_of_now_where_a_layer_keeps_what_it_made(tmp_path):
    images = torch.randn(1, 3, 224, 224)
    classifier = with_cached_biases()
    model = TokenSTN(classifier, ("rotation",), shared=2).eval()
    first = model.backbone.tokens(images)
    shift_biases(classifier)
    tokens, answer = model.backbone.tokens(images), classifier.train().eval()(images)
    assert not torch.allclose(tokens, first, atol=1e-3)
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(classifier(images), answer, rtol=0, atol=0)  # saving leaves nothing behind
    torch.testing.assert_close(tokenstn.load(tmp_path).backbone.tokens(images), tokens)
    assert model.bfloat16().backbone.tokens(images.bfloat16()).dtype == torch.bfloat16


def test_a_compiled_classifier_is_refused_and_stays_whole():
    classifier = small_vit().eval()
    with pytest.raises(ValueError, match=r"the classifier was compiled: give it as it was before"):
        TokenSTN(torch.compile(classifier, backend="eager"))
    assert classifier(torch.randn(1, 3, 32, 32)).shape == (1, 5)


@torch.no_grad()
def test_a_classifier_with_parametrized_layers_is_read_as_it_is():
    classifier = PlainCNN()
    nn.utils.parametrizations.spectral_norm(classifier.stem[0])
    classifier.eval()
    model = TokenSTN(classifier, ("rotation",), shared="body", input_size=(32, 32)).eval()
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(model(images, views=1).probabilities, classifier(images).softmax(-1))
    torch.testing.assert_close(model.backbone.tokens(images), classifier.body(classifier.stem(images)))


class PassesOn(nn.Module):
    """A wrapper that answers for what it wraps, as those that add a head or a scale of their own often do."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def __getattr__(self, name: str) -> object:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def forward(self, images: Tensor) -> Tensor:
        return self.inner(images)


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:PassesOn cannot read images at half size")
def test_what_wraps_a_network_and_passes_its_attributes_on_is_left_as_it_is():
    network = shake(small_vit()).eval()
    images = torch.randn(2, 3, 32, 32)
    answer, wrapped = network(images).softmax(-1), TokenSTN(PassesOn(network), ("rotation",), shared=2).eval()
    torch.testing.assert_close(wrapped.backbone.tokens(images), TokenSTN(network).backbone.tokens(images))
    torch.testing.assert_close(wrapped(images, views=1).probabilities, answer)
    assert network.patch_embed.strict_img_size


@torch.no_grad()
def test_a_symbolically_traced_classifier_is_read_by_the_names_of_its_layers():
    classifier = PlainCNN().eval()
    model = TokenSTN(fx.symbolic_trace(classifier), ("rotation",), shared="body.2", input_size=(32, 32)).eval()
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(model(images, views=1).probabilities, classifier(images).softmax(-1))
    torch.testing.assert_close(model.backbone.tokens(images), classifier.body(classifier.stem(images)))


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_torch_script_is_refused():
    script = torch.jit.trace(PlainCNN().eval(), torch.zeros(1, 3, 32, 32))
    with pytest.raises(ValueError, match="is a TorchScript module, whose layers cannot be read one by one"):
        TokenSTN(script, ("rotation",), shared="body", input_size=(32, 32))


@torch.no_grad()
def test_a_hybrid_is_read_at_a_size_of_whole_tokens():
    classifier = shake(timm.create_model("vit_tiny_r_s16_p8_224", num_classes=3)).eval()
    reading = usual_reading(classifier, (224, 224))
    model = TokenSTN(
        classifier, ("rotation",), "circular", reading.shared, reading.localization_size,
        localization_tokens=reading.localization_tokens,
    ).eval()  # fmt: skip
    rows = model.backbone.tokens(torch.randn(1, 3, 224, 224)).shape[-1]
    assert 224 // rows == model.backbone.multiple, "as many pixels as a token stands for"
    assert model(torch.randn(1, 3, 224, 224), views=1).probabilities.shape == (1, 3)


def test_copies_for_data_parallel_are_refused():
    model = TokenSTN(small_vit(), ("rotation",))
    with pytest.raises(ValueError, match="use torch's DistributedDataParallel"):
        model._replicate_for_data_parallel()
