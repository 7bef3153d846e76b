"""`DenoisingEncoder` as scikit-learn knows estimators, and what it adds: denoising, saving, loading."""

import copy
import io
import json
import pickle
import subprocess
import sys
import warnings

import joblib
import numpy as np
import pytest
import tifffile
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

import dcs
from dcs import DenoisingEncoder, data
from dcs.augmentation import Views
from dcs.runs import Learned, Run, RunRecord
from dcs.training import Facts, RunError, complete, make_network, make_objective, train
from tests.helpers import seeded

pytestmark = pytest.mark.filterwarnings("ignore::dcs.training.TrainingWarning")

QUICK = {"max_epochs": 2, "n_components": 3, "random_state": 0, "batch_size": 32}
SMALL = {**QUICK, "network_options": {"hidden": (8,)}}
DIGITS = load_digits()
CLEAN = (DIGITS.images / 16).astype(np.float32)
NOISY = dcs.noise.add(torch.tensor(CLEAN), "gaussian", 0.3, seed=0).numpy()
SHAPES = {"mlp": (12,), "conv": (2, 8, 8), "conv1d": (16,), "unet": (8, 8)}
SIZES = {
    "mlp": {"hidden": (8,)},
    "conv": {"width": 4, "depth": 2},
    "conv1d": {"width": 4, "depth": 2},
    "unet": {"width": 4, "depth": 1},
}


def noise(*shape, seed=0):
    return np.random.RandomState(seed).normal(size=shape).astype(np.float32)


def cosine(a, b):
    a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
    return float(np.mean((a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))))


class Custom(nn.Module):
    """Neither `encode` nor one of ours: an `encoder`, with dropout and batch normalisation."""

    def __init__(self, size=12, features=4, width=6):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(size, width), nn.BatchNorm1d(width), nn.Dropout(), nn.Linear(width, features)
        )
        self.head = nn.Linear(features, size)

    def forward(self, x):
        return self.head(self.encoder(x))


def make_custom(shape, n_components, **options):
    return Custom(shape[0], n_components, **options)


class Items(torch.utils.data.Dataset):
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return torch.tensor(self.x[index]), 0


@pytest.fixture(scope="module")
def fitted():
    """An encoder that has learned something of noisy digits."""
    encoder = DenoisingEncoder(
        max_epochs=40, batch_size=64, network_options={"hidden": (256, 256)}, random_state=0
    )
    return encoder.fit(NOISY[:1200])


# What scikit-learn asks of an estimator


@pytest.mark.parametrize(
    "parameters",
    [{"network_options": {"hidden": (8,)}}, {}, {"objective": "n2v"}, {"objective": "mse"}],
    ids=["small", "default", "n2v", "mse"],
)
def test_scikit_learn_accepts_it(parameters):
    results = check_estimator(DenoisingEncoder(max_epochs=1, **parameters), on_skip=None)
    assert {result["status"] for result in results} <= {"passed", "skipped"}
    assert sum(result["status"] == "passed" for result in results) > 40


def test_parameters_are_stored_untouched_and_cloned():
    options = {"hidden": (8,)}
    encoder = DenoisingEncoder(network_options=options, objective="nonsense", max_epochs=-1)
    assert encoder.network_options is options
    assert clone(encoder).get_params() == encoder.get_params()
    encoder.set_params(objective="mse", max_epochs=3)
    assert (encoder.objective, encoder.max_epochs) == ("mse", 3)
    with pytest.raises(TypeError):
        DenoisingEncoder("dcs")
    module = Custom()
    copied = clone(DenoisingEncoder(network=module, objective=dcs.objectives.MSE()))
    assert isinstance(copied.network, Custom)
    assert copied.network is not module


def test_import_is_quick():
    code = "import sys, dcs; sys.exit(any(m in sys.modules for m in ('sklearn', 'torch')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_pipeline_reads_noisy_digits(fitted):
    pipeline = make_pipeline(fitted, StandardScaler(), LogisticRegression(max_iter=1000))
    pipeline[1:].fit(fitted.transform(NOISY[:1200]), DIGITS.target[:1200])
    assert pipeline.score(NOISY[1200:], DIGITS.target[1200:]) > 0.7


def test_grid_search_over_objectives_with_labels():
    encoder = DenoisingEncoder(
        **{**QUICK, "max_epochs": 25, "n_components": 8}, network_options={"hidden": (128,)}
    )
    pipeline = make_pipeline(encoder, StandardScaler(), LogisticRegression(max_iter=1000))
    grid = {"denoisingencoder__objective": ["dcs", "n2v"]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise")
    search.fit(NOISY[:600].reshape(600, -1), DIGITS.target[:600])
    assert search.best_score_ > 0.5
    assert len({*search.cv_results_["mean_test_score"]}) == 2


def test_grid_search_without_labels_prefers_a_trained_encoder():
    grid = {"max_epochs": np.array([0, 30])}  # NumPy's integers, as from np.arange
    search = GridSearchCV(DenoisingEncoder(**SMALL), grid, cv=2, error_score="raise")
    assert search.fit(NOISY[:300]).best_params_ == {"max_epochs": 30}


def test_score_is_minus_the_objective_and_always_the_same():
    x = noise(100, 12)
    encoder = DenoisingEncoder(**SMALL, objective="mse").fit(x)
    with torch.no_grad():
        error = ((encoder.network_(torch.tensor(x)) - torch.tensor(x)) ** 2).mean()
    assert encoder.score(x) == pytest.approx(-float(error), rel=1e-5)
    masked = DenoisingEncoder(**SMALL).fit(x)
    assert masked.score(x) == masked.score(x)
    paired = DenoisingEncoder(**SMALL, objective="n2n").fit(x, pair=noise(100, 12, seed=1))
    with pytest.raises(ValueError, match="pair must be given"):
        paired.score(x)
    assert paired.score(x, pair=x) != paired.score(x, pair=noise(100, 12, seed=1))


def test_names_of_features():
    pyarrow = pytest.importorskip("pyarrow")
    frame = pyarrow.table({name: noise(40, seed=i) for i, name in enumerate("abcd")})
    encoder = DenoisingEncoder(**SMALL).fit(frame)
    assert list(encoder.feature_names_in_) == list("abcd")
    assert list(encoder.get_feature_names_out()) == [f"denoisingencoder{i}" for i in range(3)]
    assert encoder.n_features_in_ == 4
    with pytest.raises(ValueError, match="feature names"):
        encoder.transform(frame.rename_columns(list("abce")))
    encoder.fit(noise(40, 2, 8))
    assert not hasattr(encoder, "feature_names_in_")


@pytest.mark.parametrize("how", ["pickle", "joblib", "deepcopy"])
@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_copies_transform_alike(how, precision):
    encoder = DenoisingEncoder(**SMALL, precision=precision).fit(noise(50, 12))
    if how == "pickle":
        again = pickle.loads(pickle.dumps(encoder))  # noqa: S301
    elif how == "joblib":
        file = io.BytesIO()
        joblib.dump(encoder, file)
        file.seek(0)
        again = joblib.load(file)
    else:
        again = copy.deepcopy(encoder)
    x = noise(20, 12, seed=1)
    np.testing.assert_array_equal(again.transform(x), encoder.transform(x))
    np.testing.assert_array_equal(again.denoise(x), encoder.denoise(x))
    # Training in half precision leaves nothing behind that computes in it.
    assert encoder.network_(torch.tensor(x)).dtype == torch.float32
    assert type(encoder.network_.forward).__name__ == "method"
    assert "forward" not in vars(encoder.network_)


# Kinds of data


@pytest.mark.parametrize("shape", [(12,), (6, 7), (3, 6, 7)])
@pytest.mark.parametrize("kind", [np.asarray, torch.tensor, np.ndarray.tolist])
def test_shapes_and_kinds(shape, kind):
    x = noise(40, *shape)
    encoder = DenoisingEncoder(**SMALL)
    features = encoder.fit_transform(kind(x))
    assert features.shape == (40, 3)
    assert features.dtype == np.float32
    assert encoder.shape_ == shape
    assert encoder.n_features_in_ == np.prod(shape)
    assert encoder.n_iter_ == len(encoder.history_) == 2
    assert encoder.denoise(kind(x)).shape == x.shape
    assert encoder.inverse_transform(features).shape == x.shape
    np.testing.assert_array_equal(features, DenoisingEncoder(**SMALL).fit(x).transform(x))


def test_float64_is_as_float32_and_left_alone():
    x = noise(40, 12).astype(np.float64)
    before = x.copy()
    features = DenoisingEncoder(**SMALL).fit_transform(x)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(features, DenoisingEncoder(**SMALL).fit_transform(x.astype(np.float32)))


def test_pixels_are_scaled_alike_in_every_shape():
    pixels = np.random.RandomState(0).randint(0, 256, (40, 4, 4), dtype=np.uint8)
    images = DenoisingEncoder(**SMALL, objective="mse").fit(pixels)
    rows = DenoisingEncoder(**SMALL, objective="mse").fit(pixels.reshape(40, -1))
    np.testing.assert_array_equal(images.transform(pixels), rows.transform(pixels.reshape(40, -1)))
    np.testing.assert_array_equal(
        images.transform(pixels), images.transform((pixels / 255).astype("float32"))
    )


def test_streamed_data_gives_what_resident_data_gives(tmp_path):
    x = noise(100, 4, 4)
    np.save(tmp_path / "x.npy", x)
    stored = np.load(tmp_path / "x.npy", mmap_mode="r")
    resident = DenoisingEncoder(**SMALL, resident=True).fit(x)
    expected = resident.transform(x)
    streamed = DenoisingEncoder(**SMALL, resident=False)
    for source in (stored, Items(x), dcs.data.load(tmp_path / "x.npy", resident=False).train):
        np.testing.assert_array_equal(streamed.fit(source).transform(source), expected)
    assert streamed.scale_ == resident.scale_
    np.testing.assert_array_equal(streamed.denoise(stored), resident.denoise(x))
    assert streamed.score(stored) == resident.score(x)


def test_bad_values_of_a_memory_map_are_found_when_read(tmp_path):
    x = noise(50, 12)
    x[30, 2] = np.nan
    np.save(tmp_path / "x.npy", x)
    encoder = DenoisingEncoder(**SMALL, resident=False)
    with pytest.raises(ValueError, match="row 30"):
        encoder.fit(np.load(tmp_path / "x.npy", mmap_mode="r"))


def test_a_pair_of_pictures_of_different_sizes_is_used(tmp_path):
    clean = [torch.rand(size, generator=seeded(1)) for size in [(40, 70), (66, 35), (80, 80)]]
    first, second = (
        [(x + 0.2 * torch.randn(x.shape, generator=seeded(seed))).numpy() for x in clean] for seed in (2, 3)
    )
    options = {"window": (32, 32), "network_options": {"width": 4}, "max_epochs": 2, "random_state": 0}
    for objective in ("n2n", "dcs"):
        encoder = DenoisingEncoder(objective=objective, **options).fit(first, pair=second)
        assert [one.shape for one in encoder.denoise(first)] == [(40, 70), (66, 35), (80, 80)]
        assert encoder.score(first, pair=second) != encoder.score(first, pair=first)
        # No noise was added to what the network has seen, so none is when it is used.
        items = encoder.predictor_.items_of(data.load(first).train)
        plain = encoder.predictor_.denoise_item(items, 0, draws=0)
        assert np.array_equal(encoder.predictor_.denoise_item(items, 0, draws=4), plain)
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, pictures in zip(folders, (first, second), strict=True):
        folder.mkdir()
        for number, picture in enumerate(pictures):
            tifffile.imwrite(folder / f"{number}.tif", picture)
    from_files = DenoisingEncoder(objective="n2n", **options).fit(folders[0], pair=folders[1])
    in_memory = DenoisingEncoder(objective="n2n", **options).fit(first, pair=second)
    assert np.array_equal(from_files.transform(first), in_memory.transform(first))
    with pytest.raises(ValueError, match=r"pair must have the items of X, 3 with 1 channels, got 2 with 1"):
        DenoisingEncoder(objective="n2n", **options).fit(first, pair=second[:2])
    with pytest.raises(
        ValueError, match=r"pair must have the sizes of X, \(66, 35\) for item 1, got \(80, 80\)"
    ):
        DenoisingEncoder(objective="n2n", **options).fit(first, pair=[second[0], second[2], second[1]])


def test_a_pair_is_used():
    x, pair = noise(60, 12), noise(60, 12, seed=1)
    encoder = DenoisingEncoder(**SMALL, objective="n2n")
    with pytest.raises(ValueError, match="pair must be given"):
        encoder.fit(x)
    features = encoder.fit(x, pair=pair).transform(x)
    assert not np.array_equal(features, encoder.fit(x, pair=x).transform(x))
    np.testing.assert_array_equal(features, encoder.fit(Items(x), pair=Items(pair)).transform(x))
    with pytest.raises(ValueError, match=r"pair must have the shape of X, \(60, 12\), got \(59, 12\)"):
        encoder.fit(x, pair=pair[:-1])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (noise(20, 1), "n_features = 1"),
        (noise(20, 8, 1, 8)[:, :, :, :1], "cannot be masked"),
        (np.full((5, 4, 4), np.nan), "X contains NaN"),
        (noise(0, 4, 4), "0 sample"),
        ([[1.0, 2.0, 3.0], [1.0]], "inhomogeneous"),
        (np.ones((5, 4), dtype=complex), "Complex"),
    ],
)
def test_bad_data(x, message):
    with pytest.raises(ValueError, match=message):
        DenoisingEncoder(**SMALL).fit(x)


def test_two_columns_are_masked_by_each_other():
    encoder = DenoisingEncoder(**SMALL, objective="n2v", masking={"rho": 1.0}).fit(noise(30, 2))
    x = torch.tensor(noise(5, 2))
    x_tilde, b = encoder.objective_.masker(x, torch.Generator().manual_seed(0))
    assert torch.equal(x_tilde, x.flip(1))
    assert b.all()
    with pytest.raises(ValueError, match="n_features = 2"):
        DenoisingEncoder(**SMALL, masking={"radius": 2}).fit(x)


def test_data_of_another_kind_says_what_to_pass():
    with pytest.raises(TypeError, match=r"ds\.train"):
        DenoisingEncoder(**SMALL).fit(dcs.data.load(noise(10, 8)))
    with pytest.raises(FileNotFoundError, match=r"x\.npy"):
        DenoisingEncoder(**SMALL).fit("x.npy")
    encoder = DenoisingEncoder(**SMALL).fit(noise(20, 4, 4))
    with pytest.raises(ValueError, match=r"samples of shape \(4, 4\), as fitted, got \(16,\)"):
        encoder.transform(noise(20, 16))
    with pytest.raises(ValueError, match="3 columns"):
        encoder.inverse_transform(noise(20, 4))


# Predictions


def test_rows_do_not_depend_on_the_batch(fitted):
    features = fitted.transform(NOISY)
    for rows in (slice(7, 8), slice(3, 200), np.random.RandomState(0).permutation(500)):
        np.testing.assert_array_equal(fitted.transform(NOISY[rows]), features[rows])


def test_flags_of_training_are_restored():
    encoder = DenoisingEncoder(**QUICK, network=Custom()).fit(noise(40, 12))
    x = noise(10, 12)
    expected = encoder.transform(x)
    assert not encoder.network_.training
    encoder.network_.train()
    encoder.network_.encoder[1].eval()
    np.testing.assert_array_equal(encoder.transform(x), expected)
    assert encoder.network_.training
    assert [module.training for module in encoder.network_.encoder] == [True, False, True, True]


@pytest.mark.parametrize("factor", [1, 50])
def test_denoising_is_nearer_to_clean_and_on_the_scale_of_the_data(fitted, factor):
    encoder = fitted if factor == 1 else clone(fitted).fit(factor * NOISY[:1200])
    noisy, clean = factor * NOISY[1200:], factor * CLEAN[1200:]
    denoised = encoder.denoise(noisy)
    assert cosine(denoised, clean) > cosine(noisy, clean) + 0.05
    assert np.mean((denoised - clean) ** 2) < 0.5 * np.mean((noisy - clean) ** 2)
    decoded = encoder.inverse_transform(encoder.transform(noisy))
    assert 0.8 < (decoded * clean).sum() / (decoded * decoded).sum() < 1.2


def test_denoising_by_hand():
    x = noise(30, 12)
    for objective in ("dcs", "cosine", "mse", "n2v"):
        encoder = DenoisingEncoder(**SMALL, objective=objective).fit(x)
        with torch.no_grad():
            predicted = encoder.network_(torch.tensor(x)).numpy().astype(float)
        a, scale = np.ones((30, 1)), 1.0
        if objective in ("dcs", "cosine"):
            a = (x * predicted).sum(1, keepdims=True) / (predicted**2).sum(1, keepdims=True)
            scale = (x * predicted).sum() / (predicted**2).sum()
        np.testing.assert_allclose(encoder.denoise(x), a * predicted, rtol=1e-4, atol=1e-6)
        if scale > 0:
            assert encoder.scale_ == pytest.approx(scale, rel=1e-5)
        assert encoder.scale_ > 0


# Reproducibility


def test_reproducible_and_random_states():
    x = noise(60, 12)

    def features(random_state, **more):
        torch.seed()  # what was drawn before must not matter
        return DenoisingEncoder(**{**SMALL, **more, "random_state": random_state}).fit_transform(x)

    dropout = {"network": make_custom, "network_options": None}
    for more in ({}, dropout):
        np.testing.assert_array_equal(features(0, **more), features(0, **more))
        assert not np.array_equal(features(0, **more), features(1, **more))
    assert not np.array_equal(features(None), features(None))
    state = np.random.RandomState(3)
    first = features(state)
    assert not np.array_equal(first, features(state))
    np.testing.assert_array_equal(first, features(np.random.RandomState(3)))
    np.testing.assert_array_equal(features(np.int64(5)), features(5))


@pytest.mark.parametrize("random_state", [0, None])
def test_global_random_states_are_left_alone(random_state):
    x = noise(40, 12)
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), torch.get_num_threads()  # noqa: NPY002
    encoder = DenoisingEncoder(
        **{**QUICK, "random_state": random_state}, network=make_custom, resident=False
    ).fit(x)
    encoder.transform(x), encoder.denoise(x), encoder.score(x)
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
    assert before[2] == torch.get_num_threads()


# Parameters


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("objective", "dc"),
        ("objective", None),
        ("objective", dcs.objectives.MSE),
        ("objective_options", {"powr": 1}),
        ("objective_options", {"power": "x"}),
        ("objective_options", 3),
        ("masking", {"rho": 2}),
        ("masking", {"kind": "holes"}),
        ("masking", {"rhoo": 0.1}),
        ("network", "perceptron"),
        ("network", 3),
        ("network", nn.Linear(5, 5)),
        ("network", Custom(size=7)),
        ("network", "conv"),
        ("network", lambda shape, n: None),
        ("network_options", {"hiden": (8,)}),
        ("network_options", {"hidden": 8}),
        ("n_components", 0),
        ("max_epochs", -1),
        ("batch_size", 0),
        ("learning_rate", float("nan")),
        ("schedule", "linear"),
        ("warmup_epochs", -1),
        ("weight_decay", -1),
        ("clip_norm", 0),
        ("validation", 1),
        ("patience", 0),
        ("ema", 1.5),
        ("precision", "fp8"),
        ("compile", "maybe"),
        ("device", "gpu"),
        ("resident", "yes"),
        ("random_state", -1),
        ("random_state", "zero"),
        ("random_state", 1.5),
    ],
)
def test_a_bad_parameter_is_named(name, value):
    encoder = DenoisingEncoder(max_epochs=1).set_params(**{name: value})
    with pytest.raises((ValueError, TypeError), match=name):
        encoder.fit(noise(20, 12))
    assert not hasattr(encoder, "network_")


def test_options_that_would_be_ignored_are_refused():
    x = noise(20, 12)
    with pytest.raises(ValueError, match="masking is not applicable to objective 'mse'"):
        DenoisingEncoder(objective="mse", masking={"rho": 0.1}).fit(x)
    with pytest.raises(ValueError, match="objective_options is for an objective given by name"):
        DenoisingEncoder(objective=dcs.objectives.MSE(), objective_options={"power": 1}).fit(x)
    with pytest.raises(ValueError, match="network_options is for a network that is made"):
        DenoisingEncoder(network=Custom(), network_options={"hidden": (8,)}).fit(x)
    with pytest.raises(ValueError, match="encode"):
        DenoisingEncoder(network=nn.Linear(12, 12)).fit(x)


def test_modules_and_objectives_that_are_passed_are_copied():
    network, objective = Custom(), dcs.objectives.SURE()
    before = copy.deepcopy(network.state_dict())
    encoder = DenoisingEncoder(**QUICK, network=network, objective=objective).fit(noise(40, 12))
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert not torch.equal(before["head.weight"], encoder.network_.state_dict()["head.weight"])
    assert objective.sigma.isnan()
    assert not encoder.objective_.sigma.isnan()
    assert encoder.transform(noise(5, 12)).shape == (5, 4)
    assert len(encoder.get_feature_names_out()) == 4


def test_no_way_back_from_the_features_of_a_unet():
    encoder = DenoisingEncoder(**QUICK, network="unet", network_options=SIZES["unet"]).fit(noise(30, 8, 8))
    with pytest.raises(ValueError, match="inverse_transform needs a network with decode, which UNet lacks"):
        encoder.inverse_transform(encoder.transform(noise(3, 8, 8)))


# Saving and loading


def assert_alike(again, encoder, x):
    np.testing.assert_array_equal(again.transform(x), encoder.transform(x))
    np.testing.assert_array_equal(again.denoise(x), encoder.denoise(x))
    assert (again.scale_, again.shape_, again.n_iter_) == (encoder.scale_, encoder.shape_, encoder.n_iter_)
    assert list(again.get_feature_names_out()) == list(encoder.get_feature_names_out())


@pytest.mark.parametrize("network", SHAPES)
@pytest.mark.parametrize("objective", ["dcs", "sure"])
def test_saved_and_loaded(network, objective, tmp_path):
    x = noise(40, *SHAPES[network])
    encoder = DenoisingEncoder(
        **QUICK,
        network=network,
        network_options=SIZES[network],
        objective=objective,
        validation=np.float64(0.2),
    ).fit(x)
    encoder.save(tmp_path / "deep/saved")
    again = dcs.load(str(tmp_path / "deep/saved"))
    assert_alike(again, encoder, x)
    assert again.score(x) == encoder.score(x)
    assert again.objective_.state_dict() == encoder.objective_.state_dict()
    assert again.history_ == encoder.history_
    np.testing.assert_array_equal(clone(again).fit_transform(x), encoder.transform(x))
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["saved"]
    assert (
        json.loads((tmp_path / "deep/saved/config.json").read_text())["versions"]
        == RunRecord(shape=(1,), training={}).versions
    )
    clone(encoder).fit(x).save(tmp_path / "twin")
    model = "model.safetensors"
    assert (tmp_path / "twin" / model).read_bytes() == (tmp_path / "deep/saved" / model).read_bytes()


def test_names_of_columns_are_saved(tmp_path):
    encoder = DenoisingEncoder(**SMALL).fit(noise(20, 3))
    encoder.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)
    encoder.save(tmp_path / "saved")
    assert list(dcs.load(tmp_path / "saved").feature_names_in_) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("network", "options"), [(Custom(), None), (make_custom, None), (make_custom, {"width": 5})]
)
def test_a_network_of_ones_own_is_passed_again(network, options, tmp_path):
    x = noise(40, 12)
    parameters = {**QUICK, "n_components": 4, "network": network, "network_options": options}
    encoder = DenoisingEncoder(**parameters).fit(x)
    encoder.save(tmp_path / "saved")
    with pytest.raises(RunError, match=r"load\(path, network=\.\.\.\)"):
        dcs.load(tmp_path / "saved")
    assert_alike(dcs.load(tmp_path / "saved", network=network), encoder, x)
    with pytest.raises(RunError, match=r"model\.safetensors does not fit the network"):
        dcs.load(tmp_path / "saved", network=Custom(features=5))


def test_an_objective_of_ones_own_is_only_needed_for_scores(tmp_path):
    x, objective = noise(40, 12), dcs.objectives.DenoisingCosine(power=1)
    encoder = DenoisingEncoder(**SMALL, objective=objective).fit(x)
    encoder.save(tmp_path / "saved")
    again = dcs.load(tmp_path / "saved")
    assert_alike(again, encoder, x)
    with pytest.raises(ValueError, match=r"objective=\.\.\."):
        again.score(x)
    with pytest.raises(TypeError, match="objective must be"):  # rather than another one in silence
        again.fit(x)
    assert dcs.load(tmp_path / "saved", objective=objective).score(x) == encoder.score(x)


def test_saving_replaces_nothing_else(tmp_path):
    encoder = DenoisingEncoder(**SMALL).fit(noise(20, 12))
    target = tmp_path / "saved"
    encoder.save(target)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        encoder.save(target)
    other = DenoisingEncoder(**{**SMALL, "random_state": 1}).fit(noise(20, 12))
    other.save(target, overwrite=True)
    assert_alike(dcs.load(target), other, noise(5, 12))
    (target / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="give a new directory"):
        encoder.save(target, overwrite=True)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError, match="give a new directory"):
        encoder.save(tmp_path / "file", overwrite=True)
    assert (target / "notes.txt").read_text() == (tmp_path / "file").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "saved"]


def test_a_save_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    encoder = DenoisingEncoder(**SMALL).fit(noise(20, 12))
    encoder.save(tmp_path / "saved")
    before = (tmp_path / "saved/config.json").read_bytes()

    def full(path, content):
        raise OSError("disk full")

    monkeypatch.setattr("dcs.runs.directory.write_atomically", full)
    for name in ("saved", "new"):
        with pytest.raises(OSError, match="disk full"):
            encoder.save(tmp_path / name, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    assert (tmp_path / "saved/config.json").read_bytes() == before


def flipped(content):
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("config.json", lambda _: None, "does not exist: give a directory"),
        ("config.json", lambda _: b"{", "is damaged"),
        ("config.json", lambda _: b"[]", "not the record of a run"),
        ("config.json", lambda _: b'{"model_type": "bert"}', "not the record of a run"),
        ("config.json", lambda c: c.replace(b'"format_version": 2', b'"format_version": 9'), "upgrade"),
        ("config.json", lambda c: c.replace(b'"n_components"', b'"components"'), "components"),
        ("config.json", lambda c: c.replace(b'"mlp"', b'"os.system"'), "network must be one of mlp"),
        ("config.json", lambda c: c.replace(b'"shape"', b'"form"'), "unknown setting 'form'"),
        ("model.safetensors", lambda _: None, "does not exist, so the run has not finished"),
        ("model.safetensors", lambda c: c[:-5], "damaged"),
        ("model.safetensors", flipped, "checksum differs"),
        ("model.safetensors", lambda _: b"", "damaged"),
        ("metrics.jsonl", lambda c: c[:-9], "is damaged"),
    ],
)
def test_damage_is_one_error_that_names_the_file(name, change, message, tmp_path):
    DenoisingEncoder(**SMALL).fit(noise(20, 12)).save(tmp_path / "saved")
    path = tmp_path / "saved" / name
    content = change(path.read_bytes())
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(RunError, match=message) as caught:
        dcs.load(tmp_path / "saved")
    assert name in str(caught.value)


def test_a_path_that_leads_nowhere(tmp_path):
    with pytest.raises(RunError, match="nowhere"):
        dcs.load(tmp_path / "nowhere")


@pytest.mark.parametrize("objective", ["dcs", "mse"])
def test_a_run_directory_is_read(objective, tmp_path):
    x = torch.tensor(noise(60, 12))
    settings = {"objective": objective, "max_epochs": 2, "network_options": {"hidden": [8]}, "seed": 3}
    config = complete(settings, Facts((12,), 60))
    record = RunRecord(shape=(12,), training=config)
    network = make_network(config, (12,))
    with Run(tmp_path / "run", record) as run:
        with pytest.raises(RunError, match=r"not finished: dcs fit \.\.\. --resume"):
            dcs.load(tmp_path / "run")
        train(network, make_objective(config), x, config, recorder=run)
        run.finish(network.state_dict())
    again = dcs.load(tmp_path / "run")
    np.testing.assert_allclose(again.transform(x), network.encode(x).detach(), rtol=1e-5, atol=1e-6)
    assert again.get_params()["random_state"] == 3
    assert [line["epoch"] for line in again.history_] == [0, 1]
    if objective == "mse":
        assert again.inverse_transform(again.transform(x)).shape == (60, 12)
        return
    with pytest.raises(ValueError, match="scale"):  # rather than a wrong one
        again.inverse_transform(again.transform(x))
    path = tmp_path / "run/config.json"
    written = json.loads(path.read_text())
    path.write_text(json.dumps({**written, "learned": Learned(scale=2.0).model_dump()}))
    scaled = dcs.load(tmp_path / "run")
    decoded = network.decode(network.encode(x)).detach()
    np.testing.assert_allclose(
        scaled.inverse_transform(scaled.transform(x)), 2 * decoded, rtol=1e-4, atol=1e-5
    )
    # The same settings and data give the same weights, whichever way they are given.
    params = {k: v for k, v in scaled.get_params().items() if k != "resident"}
    np.testing.assert_array_equal(DenoisingEncoder(**params).fit(x).transform(x), scaled.transform(x))


@pytest.mark.parametrize("objective", ["dcs", "mse"])
def test_data_in_other_units_is_warned_of(objective, tmp_path):
    pixels = np.random.RandomState(0).randint(0, 256, (40, 6, 6)).astype(np.uint8)
    encoder = DenoisingEncoder(objective=objective, max_epochs=1, network_options={"hidden": (8,)}).fit(
        pixels
    )
    assert encoder.largest_ == 1
    encoder.save(tmp_path / "saved")
    for fitted in (encoder, dcs.load(tmp_path / "saved")):
        with pytest.warns(
            dcs.data.DataWarning, match=r"X has values up to 255, the training data up to 1: are the units"
        ):
            fitted.transform(pixels.astype(float))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fitted.transform(pixels)
            fitted.denoise(pixels / 255.0)
            fitted.transform(np.zeros_like(pixels))
    with pytest.warns(dcs.data.DataWarning, match="X has values up to 1, the training data up to 255"):
        encoder.fit(pixels.astype(float)).transform(pixels)


class Mirrored:
    """Views of one's own."""

    def __call__(self, x, generator=None):
        return x.flip(-1)


class Halved(Mirrored):
    def normalise(self, x):
        return x / 2


@pytest.mark.parametrize("own", ["options", "views", "mirrored", "halved"])
def test_what_the_network_sees_of_images_is_not_lost_in_saving(tmp_path, own):
    x = torch.rand(64, 3, 16, 16, generator=torch.Generator().manual_seed(0)).numpy()
    views = {"mean": (0.9, 0.9, 0.9), "std": (0.1, 0.1, 0.1), "jitter_share": 0}
    augment = {"options": views, "views": Views(**views), "mirrored": Mirrored(), "halved": Halved()}[own]
    options = {"augment": augment, "projector": (8, 8), "predictor": 4}
    small = {"network": "resnet18", "network_options": {"width": 4}, "max_epochs": 1, "batch_size": 32}
    encoder = DenoisingEncoder(objective="simsiam", objective_options=options, **small).fit(x)
    if own == "halved":
        with pytest.raises(ValueError, match="augment of your own, whose normalise would be lost"):
            encoder.save(tmp_path / "saved")
        assert not (tmp_path / "saved").exists()
        return
    encoder.save(tmp_path / "saved")
    loaded = dcs.load(tmp_path / "saved")
    np.testing.assert_array_equal(loaded.transform(x), encoder.transform(x))
    for predict in (
        loaded.denoise,
        loaded.score,
        lambda x: dcs.export.to_onnx(loaded, x.shape[1:], tmp_path / "a.onnx"),
    ):
        with pytest.raises(ValueError, match="features only"):
            predict(x)
    with pytest.raises(TypeError, match="a self-supervised one is not needed again"):
        dcs.load(tmp_path / "saved", objective=dcs.objectives.SimSiam(projector=(8, 8), predictor=4))


def test_the_masks_of_a_regulariser_are_saved(tmp_path):
    x = torch.rand(64, 3, 16, 16, generator=torch.Generator().manual_seed(0)).numpy()
    small = {"network": "resnet18", "network_options": {"width": 4}, "max_epochs": 1, "batch_size": 32}
    small |= {"objective_options": {"projector": (8, 8), "predictor": 4}, "masking": {"rho": 0.5}}
    encoder = DenoisingEncoder(objective="simsiam-dcs", **small).fit(x)
    encoder.save(tmp_path / "saved")
    again = dcs.load(tmp_path / "saved")
    np.testing.assert_array_equal(again.transform(x), encoder.transform(x))
    assert again.objective_.regulariser.masker == dcs.masking.BlindSpot(0.5, ndim=2)
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["left_out"] == {}


def test_an_encoder_that_was_loaded_without_its_objective_can_be_saved_again(tmp_path):
    x = np.random.RandomState(0).normal(size=(40, 16))
    own = dcs.objectives.Noise2Void(lambda x, generator=None: (x, torch.ones_like(x, dtype=torch.bool)))
    encoder = DenoisingEncoder(objective=own, max_epochs=1).fit(x)
    encoder.save(tmp_path / "one")
    dcs.load(tmp_path / "one").save(tmp_path / "two")
    again = dcs.load(tmp_path / "two")
    np.testing.assert_array_equal(again.transform(x), encoder.transform(x))
    with pytest.raises(ValueError, match="score needs the objective"):
        again.score(x)


def test_a_score_does_not_depend_on_the_seed_of_the_noise():
    clean = torch.tensor(load_digits().images / 16).float()
    noisy = [dcs.noise.add(clean, "gaussian", 0.3, seed=seed) for seed in range(4)]
    encoder = DenoisingEncoder(max_epochs=10, random_state=0).fit(noisy[0])
    assert encoder.objective_.masker.splits
    scores = [encoder.score(x) for x in noisy]
    assert max(scores) - min(scores) < 0.02  # 0.06 where a split draws the noise itself


def test_a_second_fit_that_fails_leaves_no_half_of_two_encoders():
    x = np.random.RandomState(0).normal(size=(40, 16))
    encoder = DenoisingEncoder(objective="mse", max_epochs=1).fit(x)
    with pytest.raises(ValueError, match="pair must have the shape"):
        encoder.fit(x[:, :9], pair=x)
    with pytest.raises(NotFittedError):
        encoder.transform(x)
    assert encoder.fit(x).transform(x).shape == (40, 10)
