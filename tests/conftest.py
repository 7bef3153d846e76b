"""What all tests share."""

import pytest
import torch
from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("dcs", deadline=None)
settings.load_profile("dcs")


@pytest.fixture(autouse=True, scope="module")
def same_number_of_threads():
    """Restore torch's number of threads, on which the last digits of results depend, after each file."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
