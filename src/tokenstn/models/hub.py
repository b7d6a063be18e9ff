"""Saving and loading as the Hugging Face hub knows it, on top of our own model folders."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import ModelCard, ModelHubMixin, snapshot_download
from torch import nn

if TYPE_CHECKING:
    from tokenstn.models.tokenstn import TokenSTN


class Pretrained(ModelHubMixin):
    """``save_pretrained``, ``from_pretrained`` and ``push_to_hub`` of a TokenSTN.

    The mixin would build a model from the JSON of its arguments; ours is built by ``models.folder``, which knows
    classifiers, bounds and thresholds. What the mixin adds is the way to and from the hub.
    """

    run_metrics: Mapping[str, Any] | None = None  # the metrics.json of the run that the model was loaded from

    def save_pretrained(
        self: TokenSTN,  # pyright: ignore[reportGeneralTypeIssues]
        save_directory: str | PathLike[str],
        *,
        config: Any = None,
        repo_id: str | None = None,
        push_to_hub: bool = False,
        model_card_kwargs: dict[str, Any] | None = None,
        **push_to_hub_kwargs: Any,
    ) -> str | None:
        """Write ``config.json``, ``model.safetensors`` and a model card, ``README.md``.

        ``tokenstn.load`` and ``from_pretrained`` read them back. With ``push_to_hub`` the folder is uploaded, too; see
        huggingface_hub for the arguments. ``model_card_kwargs`` are those of ``generate_model_card``.
        """
        from tokenstn.models.card import write_card
        from tokenstn.models.folder import save

        if config is not None:
            raise ValueError("the config of a model folder is made from the model: leave config out")
        save(self, save_directory)
        folder = Path(save_directory)
        write_card(self, folder, **(model_card_kwargs or {}))
        if not push_to_hub:
            return None
        return self.push_to_hub(repo_id or folder.name, model_card_kwargs=model_card_kwargs, **push_to_hub_kwargs)

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | PathLike[str],
        *,
        classifier: nn.Module | None = None,
        force_download: bool = False,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        revision: str | None = None,
        **model_kwargs: Any,
    ) -> TokenSTN:
        """The model of a folder, as ``tokenstn.load`` gives it, or of a repository of the Hugging Face hub.

        Args:
            classifier: as in ``tokenstn.load``.
            force_download, token, cache_dir, local_files_only, revision: as in huggingface_hub, for a repository.
        """
        from tokenstn.models.folder import CONFIG, WEIGHTS, load

        if model_kwargs:
            raise ValueError(
                f"{', '.join(model_kwargs)}: a model is what its folder says; only classifier may be given"
            )
        folder = Path(pretrained_model_name_or_path)
        if not folder.exists() and not _is_repository(str(pretrained_model_name_or_path)):
            raise FileNotFoundError(f"there is no folder {folder}, and a repository of the hub is called owner/name")
        if not folder.exists():
            found = snapshot_download(
                str(pretrained_model_name_or_path),
                revision=revision,
                token=token,
                cache_dir=cache_dir,
                force_download=force_download,
                local_files_only=local_files_only,
                allow_patterns=[CONFIG, WEIGHTS],
            )
            folder = Path(found)
        return load(folder, classifier)

    def generate_model_card(
        self: TokenSTN,  # pyright: ignore[reportGeneralTypeIssues]
        name: str = "A TokenSTN model",
        metrics: Mapping[str, Any] | None = None,
    ) -> ModelCard:
        """What a person should know before using this model; ``metrics`` is the ``metrics.json`` of its run."""
        from tokenstn.models.card import model_card

        return model_card(self, name, metrics or self.run_metrics)


def _is_repository(name: str) -> bool:
    return name.count("/") == 1 and not name.startswith((".", "/", "~")) and not name.endswith("/")
