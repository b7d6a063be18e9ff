"""What others build on changes only when somebody means it."""

import difflib

import pytest

from . import public_api


def test_the_public_api_is_what_was_promised():
    before, now = public_api.FROZEN.read_text(encoding="utf-8"), public_api.describe()
    if now != before:
        changed = difflib.unified_diff(
            before.splitlines(), now.splitlines(), "promised (public_api.txt)", "found (src/tokenstn)", n=4, lineterm=""
        )
        pytest.fail(
            "the public API has changed:\n\n" + "\n".join(changed) + "\n\nIf that is not wanted, undo it. If it is: "
            f"`{public_api.ACCEPT}`, and a line in CHANGELOG.md for those who have to change their code.",
            pytrace=False,
        )


def test_a_change_of_a_name_a_default_or_a_field_shows():
    """The text sees what would break a caller."""
    text = public_api.describe()
    for line in (
        "class: tokenstn.TokenSTN (Module, Pretrained)",
        "    argument shared: int | str = 2",
        "    field pose_ambiguous: Tensor | None = None",
        "function: tokenstn.load -> TokenSTN",
        "also: tokenstn.models.TokenSTN is tokenstn.TokenSTN",
        "command: tokenstn serve",
        "    --queue: int = 128",
        "    IMAGES: ImageSource",
    ):
        assert line in text.splitlines()
