"""What a server counts, for Prometheus: requests, seconds, batches, and how the answers are distributed.

Beside the answers stands the reference of the model folder, where there is one, and how far the last answers are from
it, so that photos of another kind are noticed before anyone wonders about the labels.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections import deque
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tokenstn.apps.answer import Answer
from tokenstn.apps.reference import (
    EDGES,
    Reference,
    bin_of,
    edges_of,
    instability,
    predicted,
    quantities,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
FLAGS = ("mirrored", "pose_ambiguous", "class_uncertain")
WINDOW = 1000  # answers that drift is measured on
ENOUGH = 100  # answers, before drift means anything
MEANING = {
    "rotation_deg": "how objects sat in the photos, degrees clockwise",
    "scale": "size of the objects, 1 = as in training",
    "shear": "horizontal shift for each unit of height",
    "translation": "distance from the centre, in halves of the photo's shorter side",
    "probability": "of the answered class",
    "views": "poses that were looked at",
}


class Metrics:
    """The counters of one process.

    Args:
        classes: names that are counted.
        estimated: primitives of the model.
        reference: what to compare with.
    """

    def __init__(self, classes: tuple[str, ...], estimated: tuple[str, ...], reference: Reference | None) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("tokenstn_requests", "by HTTP status", ["status"], registry=registry)
        self.seconds = Histogram(
            "tokenstn_request_seconds", "from the first byte to the answer", buckets=SECONDS, registry=registry
        )
        self.model_seconds = Histogram(
            "tokenstn_batch_seconds", "of the model, for a batch", buckets=SECONDS, registry=registry
        )
        self.batch = Histogram("tokenstn_batch_images", "images in a batch", buckets=BATCHES, registry=registry)
        self.in_flight = Gauge("tokenstn_requests_in_flight", "accepted, not answered", registry=registry)
        self.room = Gauge("tokenstn_queue_limit", "requests in flight beyond which others get 503", registry=registry)
        self.predictions = Counter("tokenstn_predictions", "by class", ["class"], registry=registry)
        self.flags = Counter("tokenstn_flags", "answers by flag", ["flag", "raised"], registry=registry)
        self.entropy = Histogram(
            "tokenstn_entropy", "of the belief, 0 certain to 1 no idea", ["primitive"],
            buckets=edges_of("entropy"), registry=registry,
        )  # fmt: skip
        wanted = {"probability", "views", *("rotation_deg" if name == "rotation" else name for name in estimated)}
        self.values = {
            name: Histogram(f"tokenstn_{name}", meaning, buckets=EDGES[name], registry=registry)
            for name, meaning in MEANING.items()
            if name in wanted
        }
        self.drift = None if reference is None else Drift(reference, classes)
        if self.drift is not None:
            registry.register(self.drift)

    def answered(self, answer: Answer) -> None:
        """Count what an answer says."""
        found = quantities(answer)
        for name, value in found.items():
            if name in self.values:
                self.values[name].observe(value)
            elif name in FLAGS:
                self.flags.labels(name, "yes" if value else "no").inc()
            else:
                self.entropy.labels(name.removeprefix("entropy_")).observe(value)
        for name in predicted(answer):
            self.predictions.labels(name).inc()
        if self.drift is not None:
            self.drift.add(answer)

    def page(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)


class Drift(Collector):
    """The reference as gauges, and the stability index of the last answers against it."""

    def __init__(self, reference: Reference, classes: tuple[str, ...]) -> None:
        self.reference = reference
        self.classes = classes
        self.last: dict[str, deque[int]] = {name: deque(maxlen=WINDOW) for name in reference.shares}
        self.last_classes: deque[str] = deque(maxlen=WINDOW)

    def add(self, answer: Answer) -> None:
        """Remember in which bins an answer falls."""
        for name, value in quantities(answer).items():
            if name in self.last:
                self.last[name].append(bin_of(name, value))
        self.last_classes.extend(predicted(answer))

    def collect(self) -> Iterator[Metric]:
        """The families that Prometheus asks for."""
        shares = GaugeMetricFamily(
            "tokenstn_reference_share", "of the reference images at or below", labels=["quantity", "le"]
        )
        for name, row in self.reference.shares.items():
            for edge, share in zip((*edges_of(name), "+Inf"), accumulate(row), strict=True):
                shares.add_metric([name, str(edge)], share)
        classes = GaugeMetricFamily("tokenstn_reference_class_share", "of the reference images", labels=["class"])
        for name, share in self.reference.classes.items():
            classes.add_metric([name], share)
        yield shares
        yield classes
        yield GaugeMetricFamily(
            "tokenstn_reference_images", "that the reference was measured on", value=self.reference.images
        )
        drift = GaugeMetricFamily(
            "tokenstn_drift",
            f"population stability index of the last {WINDOW} answers against the reference; above 0.25: look into it",
            labels=["quantity"],
        )
        for name, value in self.indices().items():
            drift.add_metric([name], value)
        yield drift

    def indices(self) -> dict[str, float]:
        """The stability index of each quantity that has enough answers."""
        found = {}
        for name, bins in self.last.items():
            if len(bins) >= ENOUGH:
                counts = Tally(bins)
                row = self.reference.shares[name]
                found[name] = instability([counts[k] for k in range(len(row))], row)
        if len(self.last_classes) >= ENOUGH:
            counts = Tally(self.last_classes)
            shares = self.reference.classes
            total = sum(shares.values()) or 1.0  # of several labels for each image, the mix
            expected = [shares.get(name, 0.0) / total for name in self.classes]
            found["prediction"] = instability([counts[name] for name in self.classes], expected)
        return found
