"""The memory of a program, read from its archive: against sizes computed by hand, and never an unclear error."""

import contextlib
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from schemas.footprint import FootprintError, footprint


class Wide(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(10, 1000)
        self.outer = torch.nn.Linear(1000, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.inner(x))
        return self.outer(hidden.view(-1, 1000))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("footprint") / "model.pt2"
    rows = {0: torch.export.Dim("rows", min=1, max=512)}
    torch.export.save(torch.export.export(Wide().eval(), (torch.ones(2, 10),), dynamic_shapes=(rows,)), path)
    return Path(path).read_bytes()


def test_weights_and_activations_are_what_they_are(archive: bytes) -> None:
    found = footprint(archive, 100)
    assert found.weights_bytes == 4 * (10 * 1000 + 1000 + 1000 + 1)
    # The first layer's output and relu's, alive together; the view is neither's.
    assert found.activations_bytes == 4 * 100 * (1000 + 1000)
    assert footprint(archive, 200).activations_bytes == 2 * found.activations_bytes
    assert found.total_bytes == found.weights_bytes + found.activations_bytes


@given(st.data())
def test_a_damaged_archive_is_told_or_refused(archive: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(archive) - 1))
    damaged = bytearray(archive)
    damaged[at] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(FootprintError):  # anything else would end the load without words
        assert footprint(bytes(damaged), 100).total_bytes >= 0
