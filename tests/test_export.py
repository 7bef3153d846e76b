"""Networks in other formats compute what torch computes."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import dcs
from dcs import models
from dcs.export import to_onnx
from tests.helpers import seeded

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


def test_writing_changes_no_mode(tmp_path):
    network = models.build("resnet18", (3, 16, 16), width=4)
    frozen = next(module for module in network.modules() if isinstance(module, torch.nn.BatchNorm2d)).eval()
    to_onnx(network, (3, 16, 16), tmp_path / "a.onnx", part="encoder")
    assert network.training
    assert not frozen.training


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


@pytest.fixture(scope="module")
def siamese():
    """An encoder whose network takes normalised images, and images as its transform takes them."""
    views = {"mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.4], "jitter_share": 0}
    x = torch.rand(20, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    encoder = dcs.DenoisingEncoder(
        objective="simsiam",
        objective_options={"augment": views, "projector": [8, 8], "predictor": 4},
        network="resnet18",
        network_options={"width": 2},
        batch_size=10,
        max_epochs=1,
        random_state=0,
    )
    return encoder.fit(x.numpy()), x


def test_onnx_of_an_encoder_takes_what_transform_takes(siamese, tmp_path):
    import onnxruntime

    encoder, x = siamese
    path = to_onnx(encoder, encoder.shape_, tmp_path / "a.onnx", part="encoder")
    (found,) = onnxruntime.InferenceSession(path).run(None, {"x": x[:5].numpy()})
    np.testing.assert_allclose(found, encoder.transform(x[:5].numpy()), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="part must be 'encoder' for an encoder that learns features only"):
        to_onnx(encoder, encoder.shape_, tmp_path / "b.onnx")
    with pytest.raises(ValueError, match=r"shape must be that of the fitted .*, \(3, 8, 8\), got \(8, 8\)"):
        to_onnx(encoder, (8, 8), tmp_path / "b.onnx", part="encoder")
    with pytest.raises(TypeError, match=r"network must be a torch\.nn\.Module or a fitted DenoisingEncoder"):
        to_onnx(dcs.DenoisingEncoder(), (3, 8, 8), tmp_path / "b.onnx")


def test_the_hub_keeps_the_normalisation(siamese, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    encoder, x = siamese
    dcs.hub.HubAutoencoder.of(encoder).save_pretrained(tmp_path)
    again = dcs.hub.HubAutoencoder.from_pretrained(tmp_path)
    with torch.no_grad():
        found = again.encode(x)
    np.testing.assert_allclose(found.numpy(), encoder.transform(x.numpy()), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="mean and std must be given together"):
        dcs.hub.HubAutoencoder("conv", [3, 8, 8], 4, mean=[0.5])
    own = dcs.DenoisingEncoder(network=encoder.network_, objective="mse", max_epochs=0).fit(x.numpy())
    with pytest.raises(ValueError, match=r"encoder must have a network of dcs\.models"):
        dcs.hub.HubAutoencoder.of(own)


def test_the_hub_takes_an_encoder_with_the_default_network():
    x = torch.rand(20, 6, 6, generator=seeded())
    encoder = dcs.DenoisingEncoder(max_epochs=0, random_state=0).fit(x.numpy())
    with torch.no_grad():
        found = dcs.hub.HubAutoencoder.of(encoder).encode(x)
    np.testing.assert_allclose(found.numpy(), encoder.transform(x.numpy()), rtol=1e-4, atol=1e-5)


def test_without_its_package_the_hub_says_how_to_install_it():
    code = "import sys; sys.modules['huggingface_hub'] = None; import dcs; dcs.hub"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "pip install 'dcs-learn[hub]'" in done.stderr


def test_an_encoder_with_a_front_end_is_not_written(tmp_path):
    waves = np.random.RandomState(0).normal(size=(8, 800)).astype(np.float32)
    encoder = dcs.DenoisingEncoder(front_end={"rate": 800, "mels": 8}, max_epochs=0).fit(waves)
    with pytest.raises(ValueError, match="network has a front end"):
        to_onnx(encoder, (800,), tmp_path / "a.onnx", part="encoder")


def test_they_are_reached_from_dcs_and_imported_when_used():
    code = "import sys, dcs; early = 'dcs.hub' in sys.modules; dcs.export, dcs.hub; sys.exit(early)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
