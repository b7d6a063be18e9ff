"""What ``tokenstn serve`` and ``tokenstn demo`` refuse before anything is loaded."""

import socket

import pytest

import tokenstn
from tokenstn.apps.embedded import embedded_model
from tokenstn.verbs import extras
from tokenstn.verbs.serve import saved_model

pytest.importorskip("litserve", reason="litserve is not installed")
pytest.importorskip("gradio", reason="gradio is not installed")
MODEL = str(embedded_model())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"port": 80}, "from 1024"),
        ({"host": "example.org"}, "127.0.0.1"),
        ({"views": 0}, "from 1 up"),
        ({"queue": 0}, "queue 0: at least 1"),
        ({"max_batch_size": 0}, "max_batch_size 0"),
        ({"timeout": 0}, "above 0"),
        ({"token": " "}, "token is empty"),
        ({"accelerator": "tpu"}, "cpu, gpu, mps or auto"),
        ({"devices": "x"}, "devices x: a number from 1 up"),
        ({"devices": 0}, "devices 0: a number from 1 up"),
    ],
)
def test_a_bad_setting_is_refused_with_what_is_allowed(options, reason):
    with pytest.raises(ValueError, match=reason):
        tokenstn.serve(MODEL, **options)


@pytest.mark.parametrize("verb", [tokenstn.serve, tokenstn.demo])
def test_a_port_that_is_taken_is_refused_at_once(verb):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ValueError, match="choose another with --port"):
            verb(MODEL, port=taken.getsockname()[1])


def test_a_model_is_a_folder_or_an_exported_file(tmp_path):
    assert saved_model(MODEL) == embedded_model()
    for given, reason in (("missing.onnx", "no such file"), (str(tmp_path), "neither a run folder"), ("nix", "nix")):
        with pytest.raises(ValueError, match=reason):
            saved_model(given)


def test_a_missing_library_is_said_with_the_extra():
    with pytest.raises(ValueError, match=r"no_such_module is not installed: pip install 'tokenstn\[serve\]'"):
        extras.require_extra("serve", "json", "no_such_module")
