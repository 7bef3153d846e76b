"""Whether data is held in memory: by its size, unless the user decides."""

import os


def is_resident(float_count: int, resident: bool | None) -> bool:
    """Whether so many float32 numbers are held in memory; by default up to a quarter of the machine's."""
    if resident is not None:
        return resident
    return 4 * float_count <= _physical_memory() // 4


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        return 8 * 2**30
