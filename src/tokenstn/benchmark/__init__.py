"""The benchmark: every method on the same images and weights, in cells that are run once and kept.

An experiment (YAML) becomes tasks: classifiers, methods trained around them, and cells that are evaluated. Each has a
folder by the hash of all that it depends on. What was finished is not computed again.
"""
