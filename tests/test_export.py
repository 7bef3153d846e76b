"""Networks in other formats compute what torch computes."""

import numpy as np
import pytest
import torch

from dcs import models
from dcs.export import to_onnx

SHAPES = {
    "mlp": (8, 8),
    "conv": (3, 17, 12),
    "conv1d": (2, 50),
    "unet": (13, 16),
    "vit": (16, 8),
    "waveunet": (64,),
    "resnet18": (3, 16, 16),
    "resnet50": (16, 16),
}
OPTIONS = {"mlp": {"hidden": (16,)}, "vit": {"depth": 1}, "waveunet": {"depth": 2}}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("part", ["autoencoder", "encoder"])
def test_onnx_agrees_with_torch(tmp_path, name, part):
    import onnxruntime

    network = models.build(name, SHAPES[name], 5, **OPTIONS.get(name, {"width": 4}))
    path = to_onnx(network, SHAPES[name], tmp_path / "a.onnx", part=part)
    assert network.training
    assert [p.name for p in tmp_path.iterdir()] == ["a.onnx"]
    network.eval()
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for n in (1, 3, 7):
        x = torch.randn(n, *SHAPES[name], generator=torch.Generator().manual_seed(n))
        with torch.no_grad():
            expected = network.encode(x) if part == "encoder" else network(x)
        (found,) = session.run(None, {"x": x.numpy()})
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-5)


def test_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match="part must be one of"):
        to_onnx(torch.nn.Linear(2, 2), (2,), tmp_path / "a.onnx", part="decoder")
    with pytest.raises(ValueError, match="network has no encode"):
        to_onnx(torch.nn.Linear(2, 2), (2,), tmp_path / "a.onnx", part="encoder")
    assert not list(tmp_path.iterdir())


def test_a_file_is_not_replaced_unasked(tmp_path):
    (tmp_path / "a.onnx").write_text("mine")
    network = models.build("mlp", (4,), 2, hidden=(3,))
    with pytest.raises(FileExistsError, match="pass overwrite=True"):
        to_onnx(network, (4,), tmp_path / "a.onnx")
    assert (tmp_path / "a.onnx").read_text() == "mine"
    to_onnx(network, (4,), tmp_path / "a.onnx", overwrite=True)
    assert (tmp_path / "a.onnx").read_bytes() != b"mine"


def test_hub_round_trip_without_a_network(tmp_path, monkeypatch):
    from dcs.hub import HubAutoencoder

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model = HubAutoencoder("conv", [3, 16, 16], 6, {"width": 4, "depth": 2}).eval()
    model.save_pretrained(tmp_path)
    assert {"config.json", "model.safetensors"} <= {p.name for p in tmp_path.iterdir()}
    again = HubAutoencoder.from_pretrained(tmp_path)
    x = torch.randn(4, 3, 16, 16)
    with torch.no_grad():
        assert torch.equal(again(x), model(x))
        assert torch.equal(again.encode(x), model.encode(x))
