"""Where commands write, and that nothing which is there is lost."""

from pathlib import Path
from typing import Any


def is_within(path: Path, data: str) -> bool:
    """Whether writing there would change the data."""
    source = Path(data).expanduser().resolve()
    return source.exists() and (path.resolve() == source or source in path.resolve().parents)


def check_output(path: Path, suffix: str, overwrite: bool, data: str) -> None:
    """Raise if a file cannot be written there, or would take the place of something."""
    if path.suffix.lower() != suffix:
        raise ValueError(f"--out must end in {suffix}, got {path}")
    if is_within(path, data):
        raise ValueError(f"{path} is the data itself, or in its folder: name another file")
    if path.exists() and not overwrite:
        raise ValueError(f"{path} is there already: name another file, or pass --overwrite")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"the folder of {path} does not exist: make it first")


def write(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all."""
    from dcs.training.checkpoint import write_atomically

    write_atomically(path, content)


def write_npy(path: Path, array: Any) -> None:
    """Write an array as NumPy does."""
    import io

    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, array)
    write(path, buffer.getvalue())


def write_png(path: Path, image: Any) -> None:
    """8 bits a pixel, cut off at 0 and 1."""
    import io

    import numpy as np

    from dcs._optional import require

    pillow = require("PIL.Image", "images", "writing images")
    pixels = np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8)
    buffer = io.BytesIO()
    pillow.fromarray(np.moveaxis(pixels, 0, -1) if pixels.ndim == 3 else pixels).save(buffer, "PNG")
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, buffer.getvalue())
