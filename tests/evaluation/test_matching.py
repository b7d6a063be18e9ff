"""Labels and classes that are the same in another order are brought into one."""

import torch

from tokenstn.data import ImageTable
from tokenstn.evaluation.matching import in_order_of

PIXELS = torch.zeros(4, 1, 8, 8, dtype=torch.uint8)
NATURAL, SORTED = ("class1", "class2", "class10"), ("class1", "class10", "class2")


def test_every_image_keeps_the_name_of_its_class():
    table = ImageTable("photos", PIXELS, torch.tensor([0, 1, 2, -1]), NATURAL, channels=1)
    ordered = in_order_of(SORTED, table)
    assert ordered.classes == SORTED and ordered.labels.tolist() == [0, 2, 1, -1]
    assert torch.equal(in_order_of(NATURAL, ordered).labels, table.labels)


def test_of_several_labels_each_keeps_its_name():
    labels = torch.tensor([[1.0, 0, 0], [0, 1, 1], [0, 0, 1], [-1, -1, -1]])
    table = ImageTable("photos", PIXELS, labels, NATURAL, multi_label=True, channels=1)
    ordered = in_order_of(SORTED, table)
    assert ordered.classes == SORTED and ordered.labels.tolist() == [[1, 0, 0], [0, 1, 1], [0, 1, 0], [-1, -1, -1]]


def test_other_classes_are_left_as_they_are():
    table = ImageTable("photos", PIXELS, torch.tensor([0, 1, 2, -1]), NATURAL, channels=1)
    for classes in (None, NATURAL, SORTED[:2], (*SORTED, "class3"), ("a", "b", "c")):
        assert in_order_of(classes, table) is table
