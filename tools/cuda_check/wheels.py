"""Parts of CUDA that PyPI has."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path


def file_of(distribution: str, name: str) -> Path:
    """A file of an installed distribution; name: how its path ends."""
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        raise SystemExit(f"{distribution} is not installed: pip install .[cuda-check]") from None
    return Path(next(file for file in files if str(file).endswith(name)).locate())
