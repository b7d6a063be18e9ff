"""Libraries that only some commands need: said in one sentence when they are missing."""

from __future__ import annotations

from importlib.util import find_spec


def require_extra(extra: str, *modules: str) -> None:
    """Refuse to go on without the modules of an optional dependency."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise ValueError(f"{', '.join(missing)} is not installed: pip install 'tokenstn[{extra}]'")
