"""The page says what was measured, and nothing of a stranger's becomes markup."""

import re
from dataclasses import replace
from functools import cache
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from tokenstn.reports import figures, write_report
from tokenstn.reports.gallery import dial, gallery
from tokenstn.reports.html import render
from tokenstn.reports.words import advice, headline, movement

from . import evaluations as made


def page_of(evaluation, examples=()):
    return render(evaluation, list(examples), figures(evaluation))


@cache
def plain(kind: str) -> str:
    """The page of one kind of evaluation, without examples."""
    return page_of(made.ALL[kind]())


def words(page: str) -> str:
    """What a person reads: no markup, plain spaces."""
    text = re.sub(r"<style>.*?</style>|<svg.*?</svg>|<[^>]+>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(text).replace("\u202f", " "))


@pytest.fixture(scope="module")
def page():
    evaluation = made.rectified()
    return page_of(evaluation, made.examples(evaluation))


def test_the_numbers_shown_are_the_numbers_given(page):
    evaluation, text = made.rectified(), words(page)
    for scores in (evaluation.bare, evaluation.rectified):
        assert scores is not None and scores.mean_ci is not None and scores.calibration is not None
        for share in (
            scores.upright,
            scores.mean,
            scores.worst,
            scores.best,
            scores.consistency,
            scores.calibration.ece,
        ):
            assert share is not None and f"{100 * share:.1f} %" in text
        assert f"{100 * scores.mean_ci.low:.1f}–{100 * scores.mean_ci.high:.1f} %" in text
        assert f"{scores.calibration.nll:.3f}" in text and f"{scores.calibration.brier:.3f}" in text
    assert evaluation.flips is not None
    for found in (evaluation.flips.overall, *evaluation.flips.by_class):
        rates = f"{100 * found.fixed / found.base_wrong:.1f} % {found.broken:,} {found.base_right:,}"
        assert f"{found.fixed:,} {found.base_wrong:,} {rates}" in text
    for score in evaluation.uncertainty.values():
        assert score.class_auroc is not None
        assert f"{score.class_auroc.value:.3f} ({score.class_auroc.low:.3f}–{score.class_auroc.high:.3f})" in text
    for control in evaluation.controls:
        assert (
            f"{100 * control.bare_accuracy:.1f} % {100 * control.reference:.1f} % {100 * control.accuracy:.1f} %"
            in text
        )
    source = evaluation.provenance
    assert source.command in text and source.data_sha256 in text and "torch 2.15.0" in text and "2,205" in text
    assert "4.4° 3.1 % far off" in text and "87.4 M" in text and "941.0 k" in text


def test_warnings_controls_and_collapse_are_said(page):
    text = words(page)
    assert "Warnings" in text and "“circular mask” is 2.5 points apart" in text
    assert "More than one point apart." in text and "scale has collapsed" in text
    assert page.count('<tr class="warned">') == 2


def test_relative_poses_are_consistent_not_upright(page):
    text = words(plain("relative"))
    assert "Poses are relative" in text and "consistent, not upright" in text and "median error" not in text
    assert "Poses are relative" not in words(page)


def test_the_gallery_groups_examples_and_says_what_was_corrected(page):
    examples, text = made.examples(made.rectified()), words(page)
    assert [text.index(title) for title in ("Fixed 4 examples", "Broken 4 examples", "Ambiguous 4 examples")] == sorted(
        text.index(title) for title in ("Fixed 4 examples", "Broken 4 examples", "Ambiguous 4 examples")
    )
    assert page.count("data:image/jpeg") == 2 * 9 and page.count("data:image/png") == 2 * 3
    for example in examples:
        assert example.rotation_deg is not None
        assert f"{abs(example.rotation_deg):.0f}° ± {example.spread_deg:.0f}°" in text
        assert f"{example.bare} {100 * example.bare_confidence:.1f} %" in text


def test_a_dial_points_where_the_object_points():
    assert dial(90.0, 5.0).hand == (40.0, -0.0)
    assert dial(-90.0, 5.0).hand == (-40.0, -0.0)
    assert dial(450.0, 0.0).hand == dial(90.0, 0.0).hand
    assert dial(3.0, 1.0).arrow == ""  # nothing to turn back


def test_examples_without_rotation_or_label_have_a_card_too():
    plain = replace(made.examples(made.rectified())[0], rotation_deg=None, spread_deg=None, scale=0.8, label=None)
    card = gallery([plain])[0].cards[0]
    assert card.dial is None and card.pose == ("size ×0.80",) and card.answers[0][3] is None
    grey = replace(plain, image=np.zeros((20, 30), np.uint8), kind="odd")
    text = words(page_of(made.rectified(), [grey]))
    assert "Odd 1 example" in text


def test_nothing_of_a_stranger_becomes_markup():
    evaluation = made.nasty()
    page = page_of(evaluation, made.examples(evaluation))
    tags: set[str] = set()
    attributes: set[str] = set()

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            tags.add(tag)
            attributes.update(name for name, _ in attrs)

    Reader().feed(page)
    assert "script" not in tags and not any(name.startswith("on") for name in attributes)
    assert "<script" not in page and "]]>--><b>" not in page and "\x00" not in page
    assert made.NASTY in words(page) and "蛾 🦋" in page
    assert "default-src 'none'" in page


@pytest.mark.parametrize("kind", made.ALL)
def test_every_kind_of_evaluation_makes_a_page_without_addresses_and_gaps(kind):
    page = plain(kind)
    assert "http://" not in page and "https://" not in page
    text = words(page)
    assert "None" not in text and not re.search(r"\bnan\b", text) and "Undefined" not in text
    levels = [int(level) for level in re.findall(r"<h([1-6])", page)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([a-z]+)"', page)) <= set(ids)


def test_a_bare_classifier_is_told_what_to_do_next():
    evaluation = made.bare()
    assert evaluation.bare.upright is not None and evaluation.bare.by_element is not None
    text = words(plain("bare"))
    by_element = evaluation.bare.by_element
    lost = evaluation.bare.upright - sum(by_element[1:]) / len(by_element[1:])  # of images that were turned
    assert f"loses {100 * lost:.1f} points when images are turned" in text
    assert "tokenstn train 'my photos/' --classifier resnet50" in text
    assert "Those of “dog”" not in text and "those of “dog”" in text
    assert advice(made.ALL["robust"]()).command is None and "hardly minds" in headline(made.ALL["robust"]())
    assert "same answer on" in headline(made.ALL["bare_unlabelled"]())


def test_a_classifier_that_is_low_as_it_comes_is_not_called_robust():
    evaluation = made.ALL["robust"]()
    low = replace(evaluation, bare=replace(evaluation.bare, upright=0.1, mean=0.1))
    assert "10.0 % of images as they come, which is low already" in headline(low).replace("\u202f", " ")
    said = advice(low)
    assert "where no rectifier helps" in said.sentence and said.command is None


def test_a_rectifier_that_breaks_more_than_it_fixes_is_not_recommended():
    found = made.rectified()
    assert found.flips is not None and found.rectified is not None
    worse = replace(found.flips.overall, fixed=3, broken=40)
    harmful = replace(found, flips=replace(found.flips, overall=worse), rectified=found.bare)
    assert advice(harmful).sentence.startswith("Do not use this rectifier") and "does not help" in headline(harmful)


def test_movements_have_words():
    assert movement(made.rectified()) == "turned and resized"
    assert movement(made.rectified(group="shear_rotoscale")) == "sheared, turned and resized"
    assert movement(made.bare()) == "turned"


def test_several_labels_at_once_are_explained():
    text = words(plain("multi_label"))
    assert "share of labels that are right" in text and "at a probability above 0.5" in text


def test_ink_and_colours_have_contrast_on_light_and_on_dark(page):
    def luminance(color: str) -> float:
        parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for theme in re.findall(r":root \{(.*?)\}", page, flags=re.DOTALL)[:2]:
        colors = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", theme))
        for name in ("ink", "muted", "bare", "rectified", "fixed", "broken"):
            for ground in ("paper", "page"):
                light, dark = sorted((luminance(colors[name]), luminance(colors[ground])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, ground)


def test_a_report_is_a_page_and_a_file_for_each_figure(tmp_path):
    evaluation = made.rectified()
    path = write_report(evaluation, made.examples(evaluation, each=1), tmp_path / "run")
    assert path == tmp_path / "run" / "report.html"
    names = {plot.name for plot in figures(evaluation)}
    assert {"accuracy_by_angle", "accuracy_by_angle_and_scale", "entropy_rotation", "entropy_scale", "reliability",
            "risk_coverage", "consistency", "cost", "flips_by_class", "accuracy_by_class"} == names  # fmt: skip
    files = {file.relative_to(tmp_path / "run").as_posix() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    assert files == {"report.html"} | {f"figures/{name}.{kind}" for name in names for kind in ("svg", "csv")}
    page = path.read_text(encoding="utf-8")
    assert all(f'id="figure-{name}"' in page for name in names)


def test_no_pose_is_the_worst_where_all_are_alike():
    evaluation = made.ALL["bare"]()
    alike = replace(evaluation.bare, by_element=(0.5,) * len(evaluation.elements))
    assert "at None" not in page_of(replace(evaluation, bare=alike))
    assert "at None" not in plain("bare")
