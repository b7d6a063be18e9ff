"""What a training run makes of data of every kind: upright or not, where orientation is the label, several labels."""

import io
import json
import math
from dataclasses import replace

import pytest
import timm
import torch
import yaml
from PIL import Image
from rich.console import Console
from safetensors.torch import save_file

import tokenstn
from tokenstn import Prediction, Preprocessing, TokenSTN
from tokenstn.apps.reference import Reference
from tokenstn.cli import main
from tokenstn.data import ImageTable, open_images, split_table
from tokenstn.evaluation.collapse import PrimitiveHealth
from tokenstn.evaluation.enough import Enough
from tokenstn.geometry import OneSidedScale, Pose, Rotation, Scale, Translation, warp
from tokenstn.training import engine, monitor, trainer
from tokenstn.training.engine import Machine, train_classifier
from tokenstn.training.recipes import CLASSIFIER, DEFAULT, recipe
from tokenstn.training.trainer import processes_of
from tokenstn.verbs import train_steps as steps
from tokenstn.verbs.classifiers import find_classifier
from tokenstn.verbs.models import place_of
from tokenstn.verbs.run_folder import begin

from ..models.classifiers import PlainCNN
from ..models.test_learning import comets, discs
from ..reports import evaluations
from ..training.toys import arrows
from .folders import few_digits, model_folder, run_folder

# what a folder cannot rebuild, it says
pytestmark = pytest.mark.filterwarnings("ignore:.*PlainCNN cannot be rebuilt")
ONE_PROCESS = {"accelerator": "cpu", "devices": 1, "progress": False}
SHORT = {"epochs": 1, "classifier_epochs": 1, "batch_size": 32, **ONE_PROCESS}


def in_memory(images: torch.Tensor, labels: torch.Tensor, classes: tuple[str, ...], **settings) -> ImageTable:
    pixels = (images.clamp(0, 1) * 255).to(torch.uint8)
    return ImageTable("toys", pixels, labels, classes, channels=1, **settings)


def cnn(classes: int, side: int = 28, multi_label: bool = False) -> TokenSTN:
    torch.manual_seed(0)
    prepared = Preprocessing(size=(side, side), mean=(0.2,), std=(0.3,))
    network = PlainCNN(channels=1, classes=classes)
    return TokenSTN(network, primitives=(), input_size=(side, side), preprocessing=prepared, multi_label=multi_label)


def turned_at_random(table: ImageTable) -> ImageTable:
    assert isinstance(table.items, torch.Tensor)
    angles = 2 * torch.pi * torch.rand(len(table), generator=torch.Generator().manual_seed(0))
    turned = warp(table.items, Pose.of(rotation=angles).matrix, inverse=True)
    return replace(table, items=turned)


def test_what_the_localizer_reads_is_what_was_asked_for_or_what_suits_the_classifier():
    bare = TokenSTN(timm.create_model("vit_tiny_patch16_224", num_classes=2), primitives=())
    usual = steps.with_rectifier(bare, CLASSIFIER)
    assert (usual.shared, usual.localization_size, usual.localization_tokens, usual.closer_size) == (4, 0.36, 5, 0.5)
    asked = steps.with_rectifier(bare, CLASSIFIER, ["rotation"], 6, 1.0, 14)
    assert (asked.shared, asked.localization_size, asked.localization_tokens, asked.closer_size) == (6, 1.0, 14, None)
    assert steps.with_rectifier(bare, CLASSIFIER, localization_size=0.5, closer_size=1.0).closer_size == 1.0
    assert steps.with_rectifier(bare, CLASSIFIER, closer_size=0.75).localization_size == 0.36


def test_a_primitive_that_is_named_is_that_of_the_recipe():
    bare = TokenSTN(timm.create_model("vit_tiny_patch16_224", num_classes=2), primitives=())
    paper = steps.with_rectifier(bare, recipe("paper"), ["translation", "scale"]).primitives
    assert [type(primitive) for primitive in paper] == [OneSidedScale, Translation]
    assert steps.with_rectifier(bare, recipe("paper")).primitives == recipe("paper").primitives
    ours = [steps.with_rectifier(bare, DEFAULT, names).primitives for names in (None, ["rotation", "scale"])]
    assert ours[0] == ours[1] == (Rotation(), Scale())


def test_few_images_are_shown_as_often_as_makes_enough_steps_of_the_optimizer():
    def steps_of(images: int, accumulate: int, processes: int) -> int:
        epochs = steps.enough_epochs(DEFAULT, images, accumulate, processes).epochs
        batches = max(1, images // processes // DEFAULT.batch_size)
        return epochs * math.ceil(batches / accumulate)

    for given in ((1280, 1, 1), (1280, 8, 1), (1280, 1, 4), (5000, 3, 2), (50, 1, 1)):
        assert steps.LEAST_STEPS <= steps_of(*given) < 2 * steps.LEAST_STEPS, given
    assert steps.enough_epochs(DEFAULT, 60_000, 2, 2).epochs == DEFAULT.epochs


@pytest.mark.parametrize(("devices", "nodes", "expected"), [(1, 1, 1), ("auto", 1, 1), (2, 1, 2), (2, 3, 6)])
def test_the_processes_of_a_machine_are_counted_before_it_runs(devices, nodes, expected):
    strategy = "auto" if devices != 2 else "ddp"
    assert processes_of(Machine("cpu", devices, num_nodes=nodes, strategy=strategy)) == expected


def test_a_classifier_of_a_run_that_split_the_images_otherwise_is_warned_of(tmp_path):
    run, whole = run_folder(tmp_path / "run", seed=7), open_images("digits")
    for model in (str(run), str(run / "model")):
        (sentence,) = steps.seen_before(model, whole, seed=0)
        assert "--seed 7 splits them as then" in sentence
        assert steps.seen_before(model, whole, seed=7) == []
        assert steps.seen_before(model, split_table(whole), seed=0) == []  # they come with splits


def test_a_classifier_from_elsewhere_may_have_seen_the_images_and_no_promise_says_otherwise(tmp_path, capsys):
    run, whole = run_folder(tmp_path / "run", seed=7), open_images("digits")
    alone = model_folder(tmp_path / "alone")
    for given in (str(alone), tokenstn.load(alone)):
        (sentence,) = steps.seen_before(given, whole, seed=0)
        assert "what it was trained on is not known here" in sentence
        assert not steps.kept_apart_before(given, whole, seed=0)
    assert steps.seen_before("resnet18", whole, seed=0) == steps.seen_before(None, whole, seed=0) == []
    begin(run, {"seed": 7}, whole)
    assert steps.kept_apart_before(str(run), whole, seed=7) and not steps.kept_apart_before(str(run), whole, seed=0)
    fewer = replace(whole, items=whole.items[:-1], labels=whole.labels[:-1])
    assert not steps.kept_apart_before(str(run), fewer, seed=7)


def test_promises_say_whether_it_is_known_what_the_classifier_has_seen(tmp_path):
    known, unknown = tmp_path / "known", tmp_path / "unknown"
    settings = {"primitives": ["rotation"], "upright": "yes", "classifier_epochs": 1, **SHORT}
    tokenstn.train("digits", out=str(known), **settings)
    tokenstn.train("digits", tokenstn.load(known / "model"), out=str(unknown), **settings)
    for run, said in ((known, "was not trained on them"), (unknown, "which is not known here")):
        thresholds = tokenstn.load(run / "model").thresholds
        assert said in thresholds.of_class.guarantee.assumptions and said in thresholds.of_pose.guarantee.assumptions


def test_a_file_of_settings_beside_a_model_makes_no_run(tmp_path, monkeypatch):
    (tmp_path / "config.yaml").write_text("seed: 7\nimages: digits\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "model"):
        model_folder(tmp_path / name)
        assert place_of(name).seed is None
    assert steps.seen_before("resnet18", open_images("digits"), seed=0) == []


@pytest.mark.parametrize("lying", ["upright", "turned at random"])
def test_auto_tells_upright_digits_from_turned_ones(tmp_path, lying):
    table = replace(split_table(open_images("digits")), upright=None)
    table = table if lying == "upright" else turned_at_random(table)
    bare, ready = find_classifier(None, table)
    assert not ready
    settings = replace(CLASSIFIER, epochs=8, batch_size=32)
    train_classifier(bare, table, settings, tmp_path, machine=Machine("cpu", 1, progress=False))
    model = steps.with_rectifier(bare, CLASSIFIER, ["rotation"], 2)
    out = Console(record=True, width=300, file=io.StringIO())
    assert steps.checks_before("auto", model, table, tmp_path, out) == (lying == "upright")
    said = out.export_text()
    assert ("they come upright" in said) == (lying == "upright")
    assert ("poses       relative" in said) == (lying != "upright")
    assert (tmp_path / "training_images.png").stat().st_size > 1000


@pytest.mark.parametrize("known", [True, False])
def test_what_is_known_of_a_data_set_is_believed(tmp_path, known):
    table = replace(split_table(open_images("digits")), upright=known)
    model = steps.with_rectifier(find_classifier(None, table)[0], CLASSIFIER, ["rotation"], 2)
    out = Console(record=True, width=300, file=io.StringIO())
    assert steps.checks_before("auto", model, table, tmp_path, out) is known
    said = out.export_text()
    assert "known of this data set" in said and ("poses       relative" in said) is not known
    assert steps.checks_before("yes", model, table, tmp_path, out) is True, "a person knows better"


def test_arrows_are_warned_of_before_they_are_trained_on(tmp_path, capsys):
    images, turns = arrows(900, torch.Generator().manual_seed(0))
    sideways = turns % 2 == 0
    table = split_table(in_memory(images[sideways], turns[sideways] // 2, ("right", "left")))
    bare = cnn(classes=2, side=20)
    train_classifier(
        bare,
        table,
        replace(CLASSIFIER, epochs=25, rate=1e-2),
        tmp_path / "first",
        machine=Machine("cpu", 1, progress=False),
    )
    tokenstn.train(
        table, bare, out=str(tmp_path / "run"), primitives=["rotation"], shared="body", upright="yes", **SHORT
    )
    said = capsys.readouterr().out
    assert "a turn by 180° turns right into left" in said and "switch rotation off" in said


def two_labels(count: int = 120) -> ImageTable:
    """Comets, discs, both or neither: two labels that do not exclude each other."""
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(count, 2, generator=generator) < 0.5).float()
    images = labels[:, :1, None, None] * comets(count, generator) + labels[:, 1:, None, None] * discs(count, generator)
    return in_memory(images, labels, ("comet", "disc"), multi_label=True)


def test_several_labels_go_all_the_way(tmp_path, capsys):
    out = tmp_path / "run"
    result = tokenstn.train(split_table(two_labels()), out=str(out), primitives=["rotation"], upright="yes", **SHORT)
    assert "2 labels, several for each image" in capsys.readouterr().out
    evaluation = result.metrics["evaluation"]
    assert evaluation["multi_label"] and evaluation["flips"]["overall"]["base_right"] > 0
    model = tokenstn.load(out / "model")
    assert model.multi_label and (out / "report.html").is_file()


def test_how_sure_one_view_has_to_be_is_found_for_the_model_and_kept_with_it(tmp_path, capsys, monkeypatch):
    asked = []

    def found(model, table, rows, group, **_):
        asked.append(rows)
        return Enough(replace(model.auto, sure=7.25), looked=100, stopped=60, views=2.0, brier=0.1, at_length=0.2)

    monkeypatch.setattr(steps, "fit_enough", found)
    table = split_table(two_labels())
    given = {"primitives": ["rotation"], "shared": "body", "upright": "yes", **SHORT}
    tokenstn.train(table, cnn(classes=2, multi_label=True), out=str(tmp_path / "run"), **given)
    assert "7.2 times as probable as the next one: for 60 %" in " ".join(capsys.readouterr().out.split())
    folder = next(path for path in (tmp_path / "run" / "rectified", tmp_path / "run" / "model") if path.is_dir())
    config = json.loads((folder / "config.json").read_text())
    assert config["auto"]["sure"] == config["thresholds"]["settings"]["auto"]["sure"] == 7.25
    [rows], val = asked, table.split("val")
    assert set(rows.tolist()) < set(val.tolist()) and abs(2 * len(rows) - len(val)) <= 1, "the others are for the flags"


class PowerCutError(Exception):
    pass


def test_labels_are_put_into_the_order_of_the_classifiers_classes(tmp_path, capsys, monkeypatch):
    judged: list[ImageTable] = []

    def evaluate(model, table, *_):
        judged.append(table)
        raise PowerCutError

    monkeypatch.setattr(steps, "evaluate_run", evaluate)
    images = comets(60, torch.Generator().manual_seed(0))
    table = split_table(in_memory(images, torch.arange(60) % 2, ("class2", "class10")))
    bare = cnn(classes=2)
    bare.classes = ("class10", "class2")  # in torchvision's order
    with pytest.raises(PowerCutError):
        tokenstn.train(table, bare, out=str(tmp_path), primitives=["rotation"], shared="body", upright="yes", **SHORT)
    assert "the labels follow the classifier" in capsys.readouterr().out
    assert judged[0].classes == bare.classes and torch.equal(judged[0].labels, 1 - table.labels)


def test_images_without_labels_need_a_trained_classifier_and_then_no_labels(tmp_path, capsys):
    table = split_table(replace(two_labels(), labels=torch.full((120,), -1), classes=(), multi_label=False))
    with pytest.raises(ValueError, match="no labels to train a classifier with"):
        tokenstn.train(table, out=str(tmp_path / "none"), **SHORT)
    assert not (tmp_path / "none").exists()
    result = tokenstn.train(
        table, cnn(classes=2), out=str(tmp_path / "run"), primitives=["rotation"], shared="body", **SHORT
    )
    said = capsys.readouterr().out
    assert "no labels" in said and "needs no labels" in said and "\nviews" not in said
    assert result.metrics["evaluation"]["bare"]["mean"] is None
    assert 0 <= result.metrics["evaluation"]["rectified"]["consistency"] <= 1


def test_a_classifier_of_other_classes_gets_a_rectifier_when_labels_are_left_away(tmp_path, capsys):
    generator = torch.Generator().manual_seed(0)
    labels = (torch.arange(120) >= 60).long()
    table = split_table(in_memory(torch.cat((comets(60, generator), discs(60, generator))), labels, ("comet", "disc")))
    other = cnn(classes=3)
    other.classes = ("comet", "moon", "sun")
    settings = {"primitives": ["rotation"], "shared": "body", **SHORT}
    with pytest.raises(ValueError, match=r"disc is not among the classes that it knows.*--labels=false"):
        tokenstn.train(table, other, out=str(tmp_path / "refused"), **settings)
    assert not (tmp_path / "refused").exists()
    result = tokenstn.train(table, other, out=str(tmp_path / "run"), labels=False, **settings)
    assert "no labels" in capsys.readouterr().out and result.metrics["evaluation"]["bare"]["mean"] is None
    kept = json.loads((tmp_path / "run" / "model" / "config.json").read_text(encoding="utf-8"))
    assert kept["classes"] == list(other.classes)


def test_a_collapse_in_training_is_said_in_the_terminal_and_in_the_report(tmp_path, capsys, monkeypatch):
    sick = PrimitiveHealth(0.0, 0.0, 0.0, None, None, collapsed=True, sentence="rotation has collapsed: it is still")
    monkeypatch.setattr(monitor, "collapse_report", lambda *_: {"rotation": sick})
    table = split_table(two_labels())
    bare = cnn(classes=2, multi_label=True)
    settings = {"primitives": ["rotation"], "shared": "body", "upright": "yes", **SHORT}
    result = tokenstn.train(table, bare, out=str(tmp_path / "run"), **settings)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    for said in (capsys.readouterr().out, page, " ".join(result.metrics["evaluation"]["warnings"])):
        assert said.count("rotation has collapsed") >= 1
    assert sum("rotation has collapsed" in one for one in result.metrics["evaluation"]["warnings"]) == 1


def test_a_classifier_that_learned_nothing_is_said_to_have(capsys):
    table = split_table(two_classes_of_noise())
    steps.say_accuracy(Console(soft_wrap=True), cnn(classes=2), table, "raise", just_trained=True)
    said = capsys.readouterr().out
    assert "near chance" in said and "--classifier_epochs" in said


def two_classes_of_noise() -> ImageTable:
    noise = torch.rand(120, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    return in_memory(noise, torch.arange(120) % 2, ("one", "other"))


def test_images_without_a_label_among_others_are_left_out_of_what_needs_one(tmp_path, capsys):
    generator = torch.Generator().manual_seed(0)
    labels = (torch.arange(120) >= 60).long()
    labels[::3] = -1
    table = split_table(in_memory(torch.cat((comets(60, generator), discs(60, generator))), labels, ("comet", "disc")))
    result = tokenstn.train(
        table, cnn(classes=2), out=str(tmp_path / "run"), primitives=["rotation"], shared="body", **SHORT
    )
    assert "right on" in capsys.readouterr().out
    reference = Reference.read(tmp_path / "run" / "model")  # what a server compares its answers with
    assert reference is not None and reference.images == len(table.split("val"))
    assert all(abs(sum(row) - 1) < 1e-9 for row in reference.shares.values())
    counts = result.metrics["evaluation"]["flips"]["overall"]
    assert counts["base_wrong"] + counts["base_right"] == 16 * int((labels[table.split("val")] >= 0).sum())


def test_data_that_are_not_upright_are_named_so_wherever_poses_are(tmp_path, capsys):
    out = tmp_path / "run"
    table = split_table(two_labels())
    tokenstn.train(
        table,
        cnn(classes=2, multi_label=True),
        out=str(out),
        primitives=["rotation"],
        shared="body",
        upright="no",
        **SHORT,
    )
    assert "consistent with each other, not upright" in capsys.readouterr().out
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["poses"] == metrics["evaluation"]["poses"] == "relative"
    folder = next(path for path in (out / "rectified", out / "model") if path.is_dir())
    assert json.loads((folder / "config.json").read_text())["poses"] == "relative"
    assert "relative" in (out / "report.html").read_text()


def test_a_classifier_with_another_order_of_classes_is_near_chance_and_said_to_be(tmp_path, capsys):
    generator = torch.Generator().manual_seed(0)
    images = torch.cat((comets(90, generator), discs(90, generator)))
    labels = (torch.arange(180) >= 90).long()
    table = split_table(in_memory(images, labels, ("comet", "disc")))
    bare = cnn(classes=2)
    machine = Machine("cpu", 1, progress=False)
    trained = train_classifier(bare, table, replace(CLASSIFIER, epochs=25, rate=1e-2), tmp_path / "a", machine=machine)
    assert trained.figures["val/upright"] > 0.9
    swapped = replace(table, labels=1 - table.labels)
    for given, fine in ((table, True), (swapped, False)):
        steps.say_accuracy(Console(soft_wrap=True), bare, given, "raise")
        said = capsys.readouterr().out
        assert ("the class order probably differs" in said) != fine
        assert ("below chance (50.0%)" in said) != fine


@pytest.mark.parametrize(("right", "warned"), [(16, False), (12, True), (10, True)])
def test_an_accuracy_is_near_chance_where_so_few_images_cannot_tell_them_apart(capsys, monkeypatch, right, warned):
    labels = torch.arange(20) % 2
    table = in_memory(torch.zeros(20, 1, 28, 28), labels, ("one", "other"), splits={"val": torch.arange(20)})
    answers = torch.where(torch.arange(20) < right, labels, 1 - labels)
    monkeypatch.setattr(steps, "_probe", lambda *_: (answers, labels))
    steps.say_accuracy(Console(soft_wrap=True), Echo(), table, "raise")
    said = " ".join(capsys.readouterr().out.split())
    assert f"{right / 20:.1%} right on 20" in said
    assert ("near chance (50.0%)" in said) == ("from 20 images it may be anything from" in said) == warned


class Echo:
    """Answers what it is given."""

    def eval(self):
        return lambda answers: Prediction(torch.nn.functional.one_hot(answers, 2).float())


def test_a_classifier_for_another_number_of_classes_is_refused_before_anything_is_written(tmp_path):
    table = split_table(two_labels())
    one_label = replace(table, labels=table.labels[:, 0].long(), multi_label=False)
    with pytest.raises(ValueError, match="tells 3 classes apart, toys has 2"):
        tokenstn.train(one_label, cnn(classes=3), out=str(tmp_path / "run"), shared="body", **SHORT)
    assert not (tmp_path / "run").exists()


def test_a_module_that_does_not_say_how_its_images_are_prepared_is_refused(tmp_path):
    with pytest.raises(ValueError, match="how images for this PlainCNN are prepared is not known"):
        tokenstn.train(two_labels(), PlainCNN(channels=1, classes=2), out=str(tmp_path / "run"), **SHORT)


def test_a_rectifier_that_does_harm_leaves_the_bare_classifier_as_the_default(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(steps, "breaks_more_than_it_fixes", lambda evaluation: "the rectifier breaks more")
    out = tmp_path / "run"
    bare, table = cnn(classes=2, multi_label=True), split_table(two_labels())
    result = tokenstn.train(table, bare, out=str(out), primitives=["rotation"], shared="body", **SHORT)
    assert "the rectifier breaks more" in capsys.readouterr().out and result.metrics["model_is_bare_classifier"]
    kept, rectified = (
        tokenstn.load(out / name, classifier=PlainCNN(channels=1, classes=2)) for name in ("model", "rectified")
    )
    assert kept.primitives == () and [primitive.name for primitive in rectified.primitives] == ["rotation"]
    warned = " ".join(result.metrics["evaluation"]["warnings"])
    assert kept.thresholds is None and "not calibrated" not in warned, "the model that is kept raises no flags"


def test_a_classifier_that_learned_along_and_was_harmed_is_kept_as_it_was(tmp_path, monkeypatch, capsys):
    beside = steps.beside_as_it_was
    monkeypatch.setattr(steps, "beside_as_it_was", lambda *given: (beside(*given)[0], "it was right more often"))
    given, table, out = cnn(classes=2, multi_label=True), split_table(two_labels()), tmp_path / "run"
    before = {name: value.clone() for name, value in given.classifier.state_dict().items()}
    tokenstn.train(table, given, out=str(out), recipe="joint", primitives=["rotation"], shared="body", **SHORT)
    said = " ".join(capsys.readouterr().out.split())
    assert "the classifier as it was is right on" in said and "it was right more often: " in said
    kept, rectified = (
        tokenstn.load(out / name, classifier=PlainCNN(channels=1, classes=2)).classifier.state_dict()
        for name in ("model", "rectified")
    )
    assert all(torch.equal(kept[name], value) for name, value in before.items())
    assert not all(torch.equal(rectified[name], value) for name, value in before.items())


def test_a_classifier_that_learns_along_needs_labels(tmp_path):
    table, out = split_table(two_labels()), tmp_path / "run"
    with pytest.raises(ValueError, match="learns from labels, and the images have none"):
        tokenstn.train(
            table, cnn(classes=2, multi_label=True), out=str(out), recipe="joint", labels=False, shared="body", **SHORT
        )
    assert not out.exists()


def test_the_report_says_that_flags_could_not_be_calibrated(tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "breaks_more_than_it_fixes", lambda evaluation: "")
    out = tmp_path / "run"
    bare, table = cnn(classes=2, multi_label=True), split_table(two_labels())
    result = tokenstn.train(table, bare, out=str(out), primitives=["rotation"], shared="body", **SHORT)
    limits = tokenstn.load(out / "model", classifier=PlainCNN(channels=1, classes=2)).thresholds
    assert set(limits.uncalibrated) == {"class_uncertain", "pose_ambiguous"}, "so few images show no risk of 5 %"
    page = (out / "report.html").read_text()
    for flag, why in limits.uncalibrated.items():
        assert f"{flag} is {why}" in page and f"{flag} is {why}" in result.metrics["evaluation"]["warnings"]


def test_harm_is_more_broken_than_fixed():
    evaluation = evaluations.rectified()
    assert evaluation.flips is not None
    assert steps.breaks_more_than_it_fixes(evaluation) == ""
    counts = replace(evaluation.flips.overall, fixed=10, broken=11)
    harmful = replace(evaluation, flips=replace(evaluation.flips, overall=counts))
    assert "breaks more answers (11) than it fixes (10)" in steps.breaks_more_than_it_fixes(harmful)
    assert evaluation.rectified is not None
    worse = replace(evaluation.rectified, consistency=evaluation.bare.consistency - 0.1)
    assert "less often" in steps.breaks_more_than_it_fixes(replace(evaluation, flips=None, rectified=worse))


def test_a_run_goes_on_only_with_the_settings_that_it_was_started_with(tmp_path, capsys):
    out, table = tmp_path / "run", split_table(two_labels())
    tokenstn.train(
        table, cnn(classes=2, multi_label=True), out=str(out), primitives=["rotation"], shared="body", **SHORT
    )
    (out / "metrics.json").unlink()
    with pytest.raises(FileExistsError, match="was not finished: go on with --resume=true"):
        tokenstn.train(
            table, cnn(classes=2, multi_label=True), out=str(out), primitives=["rotation"], shared="body", **SHORT
        )
    changed = {**SHORT, "epochs": 2, "resume": True}
    with pytest.raises(ValueError, match=r"was started with epochs=1 \(now 2\)"):
        tokenstn.train(
            table, cnn(classes=2, multi_label=True), out=str(out), primitives=["rotation"], shared="body", **changed
        )


def bad_label(folder, write):
    write(folder / "a" / "1.png")
    (folder / "list.csv").write_text("path,label\na/1.png,[0 2]\n")
    return folder / "list.csv", "list.csv"


def leaves_its_folder(folder, write):
    write(folder.parent / "outside.png")
    (folder / "list.csv").write_text("path,label\n../outside.png,cat\n")
    return folder / "list.csv", "outside"


def empty_class(folder, write):
    write(folder / "cat" / "1.png")
    (folder / "dog").mkdir()
    return folder, "'dog'"


def one_image_in_a_class(folder, write):
    write(folder / "cat" / "1.png")
    return folder, "leave val empty"


def one_class(folder, write):
    for number in range(20):
        write(folder / "only" / f"{number}.png")
    return folder, "has one class, 'only', and there is nothing to tell apart"


@pytest.mark.parametrize("mistake", [bad_label, leaves_its_folder, empty_class, one_image_in_a_class, one_class])
def test_data_that_cannot_be_used_get_a_sentence_and_leave_nothing(tmp_path, capsys, mistake):
    from PIL import Image

    def write(path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16)).save(path)

    folder = tmp_path / "photos"
    folder.mkdir()
    images, named = mistake(folder, write)
    out = tmp_path / "run"
    assert main(["train", str(images), "--classifier=resnet18", "--pretrained=false", "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert named in said and "Traceback" not in said and len(said.splitlines()) <= 3
    assert "splits.py" not in said, "warnings are sentences too"
    assert not out.exists()


def test_what_cannot_be_learned_is_refused_before_a_classifier_is_trained(tmp_path, capsys):
    out = tmp_path / "run"
    few = few_digits(tmp_path)
    unknown = replace(open_images(few), upright=None)
    with pytest.raises(ValueError, match=r"^shear cannot be learned .* if they do come upright, say so, --upright yes"):
        tokenstn.train(unknown, out=str(out), primitives=["rotation", "shear"], **SHORT)
    assert main(["train", str(few), "--upright=no", "--primitives=shear", "--out", str(out)]) == 2
    assert "if they do come upright, say so, --upright yes" in capsys.readouterr().err
    assert not out.exists()


def test_images_that_are_known_to_be_upright_teach_every_primitive(tmp_path, monkeypatch):
    class ReachedError(Exception):
        pass

    def reached(*_):
        raise ReachedError

    monkeypatch.setattr(steps, "say_what_was_understood", reached)
    few = open_images(few_digits(tmp_path))
    for known, upright, outcome in (
        (True, "auto", ReachedError), (None, "yes", ReachedError), (None, "auto", ValueError), (True, "no", ValueError),
        (False, "auto", ValueError),
    ):  # fmt: skip
        table = replace(few, upright=known)
        with pytest.raises(outcome):
            tokenstn.train(table, out=str(tmp_path / "run"), primitives=["shear"], upright=upright, **SHORT)


def test_one_label_that_is_given_or_not_is_something_to_tell_apart():
    digits = open_images("digits")
    given = (digits.labels[:, None] == 3).float()
    table = replace(digits, labels=given, classes=("3",), multi_label=True)
    bare, ready = find_classifier("resnet18", table, pretrained=False)
    assert not ready and bare.multi_label


def test_a_timm_name_starts_from_a_file_of_weights_at_a_chosen_size(tmp_path):
    table = open_images("digits")
    body = timm.create_model("vit_tiny_patch16_224", img_size=32, in_chans=1, num_classes=0)
    save_file(body.state_dict(), tmp_path / "body.safetensors")
    weights = str(tmp_path / "body.safetensors")
    bare, ready = find_classifier("vit_tiny_patch16_224", table, weights=weights, input_size=32)
    assert not ready and bare.backbone.input_size == (32, 32) and bare.preprocessing.size == (32, 32)
    images = torch.rand(2, 1, 32, 32)
    torch.testing.assert_close(bare.classifier.eval().forward_features(images), body.eval().forward_features(images))
    with pytest.raises(ValueError, match="go with the timm name"):
        find_classifier(None, table, weights=weights)


def test_a_run_goes_on_only_with_the_images_that_it_was_started_with(tmp_path, monkeypatch):
    def photo(number: int) -> None:
        Image.new("L", (28, 28), 2 * number).save(tmp_path / "photos" / "ab"[number % 2] / f"{number:03}.png")

    for name in "ab":
        (tmp_path / "photos" / name).mkdir(parents=True)
    for number in range(60):
        photo(number)
    out, bare = tmp_path / "run", cnn(classes=2)
    begun = {"out": str(out), "primitives": ["rotation"], "shared": "body", "upright": "yes", **SHORT}

    def cut(*_, **__):
        raise PowerCutError

    monkeypatch.setattr(steps, "evaluate_run", cut)
    with pytest.raises(PowerCutError):
        tokenstn.train(str(tmp_path / "photos"), bare, **begun)
    digest = (out / "images.sha256").read_bytes()
    photo(60)
    with pytest.raises(ValueError, match=r"the images changed since the run in .* began.*put them back"):
        tokenstn.train(str(tmp_path / "photos"), bare, resume=True, **begun)
    assert (out / "images.sha256").read_bytes() == digest, "put back, it goes on"
    (tmp_path / "photos" / "a" / "060.png").unlink()
    with pytest.raises(PowerCutError):
        tokenstn.train(str(tmp_path / "photos"), bare, resume=True, **begun)


def test_a_run_goes_on_with_as_many_epochs_as_it_was_begun_with(tmp_path, monkeypatch):
    """How many are enough depends on the devices, of which there may be others by then."""
    planned = []

    def cut(model, table, settings, *_, **__):
        planned.append(settings.epochs)
        raise PowerCutError

    monkeypatch.setattr(engine, "train_rectifier", cut)
    settings = {**SHORT, "epochs": None, "primitives": ["rotation"], "shared": "body", "upright": "yes"}
    out = tmp_path / "run"
    for processes, resume in ((1, False), (4, True)):
        monkeypatch.setattr(trainer, "processes_of", lambda _, n=processes: n)
        classifier = cnn(classes=2, multi_label=True)
        with pytest.raises(PowerCutError):
            tokenstn.train(split_table(two_labels()), classifier, out=str(out), resume=resume, **settings)
    assert planned[0] == planned[1] == yaml.safe_load((out / "config.yaml").read_text())["epochs"]


@pytest.mark.parametrize("devices", ["x", 0])
def test_devices_that_are_none_get_a_sentence(tmp_path, capsys, devices):
    assert main(["train", "digits", f"--devices={devices}", f"--out={tmp_path / 'run'}"]) == 2
    assert f"--devices {devices}: how many" in capsys.readouterr().err
