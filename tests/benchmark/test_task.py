"""The identity of a task: what changes its hash and what does not."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tokenstn.benchmark.task import canonical, folder_of, key_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
CONFIGS = st.dictionaries(st.text(min_size=1), VALUES, min_size=1, max_size=5)


def backwards(value):
    """The same value with the keys of every mapping in the opposite order."""
    if isinstance(value, dict):
        return {key: backwards(value[key]) for key in reversed(value)}
    return [backwards(item) for item in value] if isinstance(value, list) else value


@given(CONFIGS)
def test_the_order_of_keys_does_not_change_the_hash(config):
    assert key_of(backwards(config)) == key_of(config)


@given(CONFIGS, st.text(min_size=1), VALUES)
def test_another_setting_changes_the_hash(config, key, value):
    other = {**config, key: value}
    assert (key_of(other) == key_of(config)) == (canonical(other) == canonical(config))
    if json.dumps(other.get(key)) != json.dumps(config.get(key)):
        assert key_of(other) != key_of(config)


def test_a_folder_is_called_by_its_kind_and_the_begin_of_the_hash():
    assert folder_of("cell", "0123456789abcdef" * 4) == "cell-0123456789abcdef"
