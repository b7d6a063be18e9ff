"""JSON and YAML are plain values, or a sentence that begins with the file; they run nothing and fill nothing."""

import json
import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tokenstn.system.documents import DEEPEST, in_short, parsed_json, read_json, read_yaml, shown

from ..trust.drills import drill

wild = drill("wild_configs")
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(plain)
def test_any_plain_value_comes_back(value):
    assert parsed_json(json.dumps(value), "it") == value


def test_files_come_back(tmp_path):
    value = {"a": [1, 2.5, None, "ä"], "b": {"c": True}}
    (tmp_path / "a.json").write_text(json.dumps(value), encoding="utf-8")
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(value, allow_unicode=True), encoding="utf-8")
    assert read_json(tmp_path / "a.json") == read_yaml(tmp_path / "a.yaml") == value
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "absent.json")


@pytest.mark.parametrize("name", [name for name in wild.json_bombs() if name != "same key"])
def test_json_that_is_none_or_too_much_is_refused(name, tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(wild.json_bombs()[name])
    with pytest.raises(ValueError, match=r"a\.json is not valid JSON"):
        read_json(path)


HARMLESS = ("no date", "binary", "set", "empty", "itself", "elsewhere", "absolute", "a list to extend")  # plain values


@pytest.mark.parametrize("name", [name for name in wild.yaml_bombs() if name not in HARMLESS[1:]])
def test_yaml_that_wants_more_than_values_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.yaml"
    path.write_bytes(wild.yaml_bombs()[name])
    with pytest.raises(ValueError, match=r"a\.yaml is (not YAML|nested too deeply)"):
        read_yaml(path)
    assert not (tmp_path / "executed").exists()


def test_parts_that_are_written_by_name_are_welcome_within_reason(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "usual: &usual {epochs: 3, rate: 1.0}\nmine: *usual\nyours: {<<: *usual, epochs: 9}\n"
    )
    assert read_yaml(tmp_path / "a.yaml")["mine"] == {"epochs": 3, "rate": 1.0}


def test_the_depth_and_the_size_have_a_limit(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[" * DEEPEST + "]" * DEEPEST)
    assert read_json(path)
    path.write_text("[" * (DEEPEST + 2) + "]" * (DEEPEST + 2))
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(path)
    with path.open("wb") as file:
        file.truncate(2**40)
    for read in (read_json, read_yaml):
        with pytest.raises(ValueError, match="1,099,511,627,776 bytes, and at most"):
            read(path)


def test_sentences_stay_short():
    assert shown([1] * 10**6).endswith("…") and len(shown("x" * 10**6)) < 120 and shown(math.nan) == "nan"
    assert len(in_short(ValueError("x" * 10**6))) < 500 and in_short(KeyError()) == "KeyError"
    assert "\x1b" not in in_short(ValueError("a\x1b[31mred\nb")) and "\n" not in in_short(ValueError("a\nb"))
