"""Data sets: what they are before pixels are read, how they are split, and how a photo becomes the network's input."""

from tokenstn.data.dataset import BadImage, ImageDataset, collate, to_float
from tokenstn.data.digits import read_digits
from tokenstn.data.fit import fit, fit_matrix
from tokenstn.data.folder import read_folder
from tokenstn.data.images import PIXEL_LIMIT, UnreadableImageError, read_image
from tokenstn.data.items import DatasetMember, ZipMember
from tokenstn.data.manifest import read_manifest
from tokenstn.data.medmnist import MEDMNIST_NAMES, read_medmnist
from tokenstn.data.mnist import read_mnist
from tokenstn.data.mnist_mini import read_mnist_mini
from tokenstn.data.moths import read_moths
from tokenstn.data.open import open_images
from tokenstn.data.rotmnist import read_rotmnist
from tokenstn.data.splits import split_table
from tokenstn.data.table import ImageTable
from tokenstn.data.torch_dataset import read_dataset

__all__ = [
    "MEDMNIST_NAMES",
    "PIXEL_LIMIT",
    "BadImage",
    "DatasetMember",
    "ImageDataset",
    "ImageTable",
    "UnreadableImageError",
    "ZipMember",
    "collate",
    "fit",
    "fit_matrix",
    "open_images",
    "read_dataset",
    "read_digits",
    "read_folder",
    "read_image",
    "read_manifest",
    "read_medmnist",
    "read_mnist",
    "read_mnist_mini",
    "read_moths",
    "read_rotmnist",
    "split_table",
    "to_float",
]
