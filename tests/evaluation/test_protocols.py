"""The protocols against scikit-learn, scikit-image and plain loops."""

import importlib.metadata
import itertools
import json
import math
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from skimage.metrics import peak_signal_noise_ratio, structural_similarity
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler
from torch import nn

import dcs
from dcs import DenoisingEncoder, evaluation, models
from dcs.data import Split
from dcs.data._arrays import ArraySamples
from dcs.evaluation import _clustering, _denoising
from dcs.evaluation._linear import fit_lbfgs, fit_sgd
from dcs.evaluation._result import versions


def blobs(n=300, d=5, classes=3, seed=0, spread=1.0):
    random = np.random.RandomState(seed)
    centres = 2 * random.normal(size=(classes, d))
    y = random.randint(classes, size=n)
    return torch.tensor(centres[y] + spread * random.normal(size=(n, d)), dtype=torch.float32), y


def halves(x, y):
    middle = len(x) // 2
    return (x[:middle], y[:middle]), (x[middle:], y[middle:])


def gaps(y, missing, kind):
    """Labels of which nine are missing."""
    labels = y.astype(kind)
    labels[:9] = missing
    return labels


@given(
    st.integers(1, 7).flatmap(
        lambda c: st.lists(st.tuples(st.integers(0, c - 1), st.integers(0, c - 1)), min_size=1)
    )
)
def test_cluster_accuracy_is_that_of_the_best_permutation(pairs):
    labels, clusters = (np.array(part) for part in zip(*pairs, strict=True))
    names = range(max(labels.max(), clusters.max()) + 1)
    best = max(
        np.mean([p[c] == k for c, k in zip(clusters, labels, strict=True)])
        for p in itertools.permutations(names)
    )
    assert evaluation.cluster_accuracy(labels, clusters) == pytest.approx(100 * best)


def test_more_clusters_than_classes_are_matched_too():
    assert evaluation.cluster_accuracy(np.array(["a", "a", "b", "b"]), np.array([0, 1, 2, 3])) == 50


class FakeUMAP:
    made = None

    def __init__(self, **settings):
        self.made.append(settings)

    def fit_transform(self, z):
        return np.asarray(z, np.float32)[:, :2]  # it computes in float32


@pytest.fixture
def fake_umap(monkeypatch):
    FakeUMAP.made = []
    monkeypatch.setitem(sys.modules, "umap", types.SimpleNamespace(UMAP=FakeUMAP))
    mixtures = []

    class Watched(GaussianMixture):
        def fit_predict(self, x, y=None):
            mixtures.append(self.get_params())
            return super().fit_predict(x, y)

    monkeypatch.setattr(_clustering, "GaussianMixture", Watched)
    monkeypatch.setattr(_clustering, "versions", lambda *names: dict.fromkeys(names, "0") | versions())
    return mixtures


def test_clustering_has_the_papers_settings(fake_umap):
    x, y = blobs(spread=0.1)
    result = evaluation.clustering((x, y), seed=4)
    (umap,) = FakeUMAP.made
    paper = {"n_components": 3, "n_neighbors": 20, "min_dist": 0.0, "metric": "euclidean"}
    assert umap == {**paper, "random_state": 4, "n_jobs": 1}
    (mixture,) = fake_umap
    wanted = {"n_components": 3, "covariance_type": "full", "n_init": 1, "reg_covar": 1e-6, "random_state": 4}
    assert wanted.items() <= mixture.items()
    assert result.score == result.metrics["nmi"] == result.metrics["ari"] == 100
    assert result.seed == 4
    assert result.settings["n_clusters"] == result.settings["classes"] == 3
    assert set(result.versions) == {*versions(), "umap-learn", "numba", "pynndescent"}


def test_clustering_takes_other_settings_and_refuses_too_little_data(fake_umap):
    x, y = blobs()
    evaluation.clustering((x, y), n_clusters=5, n_components=2, n_neighbors=7, min_dist=0.1)
    assert FakeUMAP.made[0]["n_components"] == 2
    assert FakeUMAP.made[0]["n_neighbors"] == 7
    assert fake_umap[0]["n_components"] == 5
    with pytest.raises(ValueError, match="part has 20 samples: at least 21 are needed for n_neighbors 20"):
        evaluation.clustering((x[:20], y[:20]))
    with pytest.raises(ValueError, match="part has 30 samples: at least 31 are needed for n_clusters 30"):
        evaluation.clustering((x[:30], range(30)))
    with pytest.raises(ValueError, match="at least 31 are needed for n_components 29"):
        evaluation.clustering((x[:30], y[:30]), n_components=29)
    evaluation.clustering((x[:30], y[:30]), n_components=28)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_nmi_and_ari_of_imperfect_clusters_have_their_formulas(fake_umap, monkeypatch, share):
    random = np.random.default_rng(0)
    x, y = blobs()
    clusters = np.where(random.random(300) < share, (y + 1) % 3, random.integers(4, size=300))
    given = types.SimpleNamespace(fit_predict=lambda _: clusters)
    monkeypatch.setattr(_clustering, "GaussianMixture", lambda *_, **__: given)
    result = evaluation.clustering((x, y), n_clusters=4)
    joint = {(a, b): int(sum((y == a) & (clusters == b))) for a in range(3) for b in range(4)}
    rows = [sum(joint[a, b] for b in range(4)) for a in range(3)]
    columns = [sum(joint[a, b] for a in range(3)) for b in range(4)]
    shared = sum(n / 300 * math.log(n * 300 / rows[a] / columns[b]) for (a, b), n in joint.items() if n)
    entropies = [-sum(n / 300 * math.log(n / 300) for n in counts) for counts in (rows, columns)]
    assert result.metrics["nmi"] == pytest.approx(100 * shared / (sum(entropies) / 2))
    pairs, of_rows, of_columns = (sum(math.comb(n, 2) for n in ns) for ns in (joint.values(), rows, columns))
    chance = of_rows * of_columns / math.comb(300, 2)
    assert result.metrics["ari"] == pytest.approx(
        100 * (pairs - chance) / ((of_rows + of_columns) / 2 - chance)
    )
    best = max(
        sum(joint[a, p[a]] for a in range(3)) for p in itertools.permutations(range(4), 3)
    )  # each class has a cluster of its own
    assert result.score == pytest.approx(100 * best / 300)


def test_clustering_finds_digits():
    pytest.importorskip("umap")
    data = load_digits()
    result = evaluation.clustering((data.data[:600].astype(np.float32), data.target[:600]), seed=0)
    assert result.score > 70
    assert 0 < result.metrics["umap_seconds"] < result.seconds


def reference(x, y, c=1.0):
    """scikit-learn's classifier, to a tight tolerance, and its loss: the mean with the penalty in it."""
    scaler = StandardScaler().fit(x)
    z = scaler.transform(x)
    classifier = LogisticRegression(C=c, tol=1e-10, max_iter=100_000).fit(z, y)
    probabilities = classifier.predict_proba(z)[np.arange(len(y)), y]
    loss = -np.log(probabilities).mean() + (classifier.coef_**2).sum() / (2 * c * len(y))
    return scaler, classifier, loss


@pytest.mark.parametrize(("c", "classes", "d"), [(1.0, 3, 5), (0.01, 4, 2), (100.0, 10, 30)])
def test_linear_is_logistic_regression(c, classes, d):
    x, y = blobs(600, d, classes)
    (train, train_y), (test, test_y) = halves(x.double().numpy() * 7 + 3, y)
    scaler, classifier, loss = reference(train, train_y, c)
    head = fit_lbfgs(torch.tensor(train), torch.tensor(train_y), classes, inverse_penalty=c, max_iter=1000)
    logits = head.logits(torch.tensor(train).float()).double()
    ours = nn.functional.cross_entropy(
        logits, torch.tensor(train_y)
    ) + head.weight.double().square().sum() / (2 * c * len(train))
    assert float(ours) == pytest.approx(loss, abs=2e-6)
    result = evaluation.linear((train, train_y), (test, test_y), C=c)
    theirs = 100 * classifier.score(scaler.transform(test), test_y)
    assert abs(result.score - theirs) <= 100 / len(test) + 1e-9  # a sample on the border may go either way
    assert result.metrics["train_accuracy"] == pytest.approx(
        100 * classifier.score(scaler.transform(train), train_y), abs=0.4
    )


def test_float64_features_with_a_large_mean_score_as_without_it(fake_umap):
    x, y = blobs(400)
    x = x.double().numpy()
    far = x * 1e-4 + 1e4
    plain = evaluation.linear(*halves(x, y)).score
    assert evaluation.linear(*halves(far, y)).score == pytest.approx(plain, abs=0.51)  # one sample of 200
    assert evaluation.linear(*halves(torch.tensor(far), y)).score == pytest.approx(plain, abs=0.51)
    assert evaluation.clustering((far / 1e-4, y)).score == pytest.approx(
        evaluation.clustering((x, y)).score, abs=1
    )
    assert evaluation.features_of(None, far).dtype == np.float64
    with pytest.warns(UserWarning, match="features of x are the same"):  # which float32 cannot tell apart
        assert evaluation.features_of(None, far.astype(np.float32)).dtype == np.float32
    assert evaluation.features_of(None, far.astype(int)).dtype == np.float32
    assert evaluation.linear(*halves(x, y), head="sgd", epochs=1).score > 0
    single = x.astype(np.float32)
    assert evaluation.knn(*halves(x, y), k=50).score == evaluation.knn(*halves(single, y), k=50).score


def test_linear_takes_constant_and_collinear_features():
    x, y = blobs()
    x = torch.cat([x, x[:, :2], torch.full((len(x), 1), 5.0)], 1)
    (train, train_y), _ = halves(x, y)
    scaler, classifier, _ = reference(train.double().numpy(), train_y)
    head = fit_lbfgs(train, torch.tensor(train_y), 3, inverse_penalty=1.0, max_iter=1000)
    predicted = head.logits(train).argmax(1).numpy()
    assert (predicted == classifier.predict(scaler.transform(train.numpy()))).mean() > 0.99
    assert head.weight.isfinite().all()


def test_sgd_is_simsiams_recipe():
    x, y = blobs(400, spread=0.3)
    train, test = halves(nn.functional.normalize(x, dim=1), y)
    result, again = (evaluation.linear(train, test, head="sgd", epochs=20, seed=1) for _ in range(2))
    assert result.score == again.score > 90
    assert result.seed == 1
    assert result.settings["learning_rate"] == 30
    assert result.settings["epochs"] == 20


@pytest.mark.parametrize(("batch_size", "rate"), [(64, 30.0), (256, 0.5), (300, 3.0)])
def test_sgd_is_a_plain_loop(batch_size, rate):
    """Softmax regression by hand: lr x batch/256, momentum 0.9, cosine by epoch, N(0, 0.01²), no decay."""
    x, y = blobs(300, spread=0.3)
    x, epochs = nn.functional.normalize(x, dim=1), 7
    head = fit_sgd(x, torch.tensor(y), 3, learning_rate=rate, epochs=epochs, batch_size=batch_size, seed=5)
    generator = torch.Generator().manual_seed(5)
    weight = 0.01 * torch.randn(5, 3, generator=generator).double().numpy()
    bias, speeds = np.zeros(3), [0.0, 0.0]
    for epoch in range(epochs):
        step = rate * batch_size / 256 * (1 + math.cos(math.pi * epoch / epochs)) / 2
        order = torch.randperm(300, generator=generator).numpy()
        for begin in range(0, 300, batch_size):
            rows = order[begin : begin + batch_size]
            some = x.double().numpy()[rows]
            likely = np.exp(some @ weight + bias)
            error = (likely / likely.sum(1, keepdims=True) - np.eye(3)[y[rows]]) / len(rows)
            speeds = [0.9 * v + g for v, g in zip(speeds, (some.T @ error, error.sum(0)), strict=True)]
            weight, bias = weight - step * speeds[0], bias - step * speeds[1]
    np.testing.assert_allclose(head.weight.numpy(), weight, rtol=0, atol=1e-4 * np.abs(weight).max())
    np.testing.assert_allclose(head.bias.numpy(), bias, rtol=0, atol=1e-4 * np.abs(weight).max())
    assert torch.equal(head.logits(x), torch.addmm(head.bias, x, head.weight))  # features as they are


@pytest.mark.filterwarnings("ignore:k is .*, which all vote")
@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 60), st.sampled_from([0.07, 0.1, 1.0]))
def test_knn_is_a_plain_vote(seed, k, temperature):
    x, y = blobs(60, 3, 3, seed)
    (train, train_y), (test, test_y) = halves(x, y)
    right = 0
    for sample, label in zip(test.double(), test_y, strict=True):
        cosines = [float(sample @ other / sample.norm() / other.norm()) for other in train.double()]
        nearest = sorted(range(len(train)), key=lambda i: -cosines[i])[:k]
        votes = {}
        for i in nearest:
            votes[train_y[i]] = votes.get(train_y[i], 0) + math.exp(cosines[i] / temperature)
        right += max(votes, key=votes.get) == label
    ours = evaluation.knn((train, train_y), (test, test_y), k=k, temperature=temperature).score
    assert abs(ours - 100 * right / len(test)) < 100 / len(test) + 1e-9


def test_more_neighbours_than_samples_are_warned_of():
    train, test = halves(*blobs(40))
    with pytest.warns(
        UserWarning, match="k is 200, but train has only 20 samples, which all vote: use a lower k"
    ):
        assert evaluation.knn(train, test).settings["k"] == 20


def test_knn_in_blocks_is_knn(monkeypatch):
    train, test = halves(*blobs())
    whole = evaluation.knn(train, test, k=10)
    monkeypatch.setattr("dcs.evaluation._knn._ENTRIES", 700)
    assert evaluation.knn(train, test, k=10).score == whole.score


def test_denoising_measures_against_scikit_image():
    random = torch.Generator().manual_seed(0)
    clean = torch.rand(3, 20, 17, generator=random)
    predicted = clean + 0.1 * torch.randn(clean.shape, generator=random)
    result = evaluation.denoising(predicted, clean)
    pairs = list(zip(clean.double().numpy(), predicted.double().numpy(), strict=True))
    options = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "data_range": 1.0}
    assert result.metrics["psnr"] == pytest.approx(
        np.mean([peak_signal_noise_ratio(s, p, data_range=1.0) for s, p in pairs]), abs=1e-4
    )
    assert result.metrics["ssim"] == pytest.approx(
        np.mean([structural_similarity(s, p, **options) for s, p in pairs]), abs=1e-5
    )
    cosines = [np.sum(s * p) / np.linalg.norm(s) / np.linalg.norm(p) for s, p in pairs]
    assert result.score == pytest.approx(100 * np.mean(cosines), abs=1e-4)


def test_denoising_takes_a_split():
    noisy, clean = torch.rand(2, 4, 6, generator=torch.Generator().manual_seed(0))
    score = evaluation.denoising(noisy, clean).score
    assert evaluation.denoising(Split(noisy, clean=clean)).score == score
    assert evaluation.denoising(Split(noisy, clean=clean), model=nn.Identity()).score == score


def test_padding_is_what_a_split_says():
    class Encoder:
        def transform(self, part):
            inside = torch.arange(5) < part.lengths[:, None]
            return (part.x * inside).numpy()

    x, y = blobs()
    parts = [Split(x, torch.as_tensor(y), lengths=torch.full((len(x),), 2))] * 2
    cut = evaluation.knn((x[:, :2], y), (x[:, :2], y), k=5).score
    assert evaluation.knn(*parts, Encoder(), k=5).score == cut != evaluation.knn(*parts, k=5).score


def test_ssim_of_colours_is_their_mean_and_small_images_have_none():
    random = torch.Generator().manual_seed(0)
    clean, predicted = torch.rand(2, 4, 3, 12, 12, generator=random)
    channels = [_denoising.ssim(clean[:, i], predicted[:, i]) for i in range(3)]
    torch.testing.assert_close(_denoising.ssim(clean, predicted), torch.stack(channels).mean(0))
    assert "ssim" not in evaluation.denoising(predicted[..., :8], clean[..., :8]).metrics


def test_constant_samples_have_no_si_snr():
    clean = torch.rand(5, 12, 12, generator=torch.Generator().manual_seed(0))
    noisy = clean + 0.1 * torch.rand(5, 12, 12, generator=torch.Generator().manual_seed(1))
    usual = evaluation.denoising(noisy[:3], clean[:3])
    clean[3], noisy[4] = 0.5, 0.5
    found = evaluation.denoising(noisy, clean)
    assert found.metrics["si_snr"] == pytest.approx(usual.metrics["si_snr"])
    assert (found.settings["constant_samples"], found.settings["samples"]) == (2, 5)


def test_si_snr_has_its_closed_form():
    """A signal with a tenth of its energy in orthogonal noise: 10 dB, at any scale and offset."""
    t = torch.arange(1000) * 2 * math.pi / 1000
    clean = torch.sin(5 * t)[None]
    predicted = 3 * (clean + math.sqrt(0.1) * torch.sin(9 * t)[None]) + 2
    assert float(_denoising.si_snr(clean, predicted)) == pytest.approx(10, abs=1e-3)


def encoder_with_state():
    network = models.Autoencoder(
        nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)), nn.Linear(4, 5)
    )
    return network.train()


def test_an_encoder_is_frozen_and_left_as_it_was():
    network = encoder_with_state()
    train, test = halves(*blobs())
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with_encoder = evaluation.linear(train, test, network)
    assert all(module.training for module in network.modules())
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    features = [(evaluation.features_of(network, x), y) for x, y in (train, test)]
    assert evaluation.linear(*features).score == with_encoder.score  # dropout is off
    assert np.array_equal(features[0][0], network.eval().encode(train[0]).detach().numpy())


class Counting(nn.Module):
    def __init__(self, persistent=True):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()), persistent=persistent)

    def forward(self, x):
        self.calls += 1
        return x


class Growing(nn.Module):
    def forward(self, x):
        self.scale = nn.Parameter(torch.ones(()))
        return x


class Forgetting(Growing):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        del self.scale
        return x


@pytest.mark.parametrize(
    ("encoder", "name"),
    [
        (Counting(), "calls"),
        (Counting(persistent=False), "calls"),
        (Counting().forward, "calls"),
        (Growing(), "scale"),
        (Forgetting(), "scale"),
    ],
)
def test_an_encoder_that_changes_is_refused(encoder, name):
    train, test = halves(*blobs())
    with pytest.raises(RuntimeError, match=f"evaluation has changed {name} of the encoder"):
        evaluation.linear(train, test, encoder)


def test_nan_in_an_encoder_is_not_taken_for_a_change():
    network = encoder_with_state()
    train, test = halves(*blobs())
    with torch.no_grad():
        network.decoder.bias.fill_(torch.nan)
    assert evaluation.linear(train, test, network).score > 50  # features do not depend on it
    with torch.no_grad():
        network.encoder[0].bias.fill_(torch.nan)
    with pytest.raises(
        ValueError,
        match="features of train have NaN or infinite entries: check the weights and the input of the "
        "encoder",
    ):
        evaluation.linear(train, test, network)


def test_what_can_be_an_encoder():
    x, y = blobs()
    train, test = halves(x, y)
    plain = evaluation.knn(train, test, k=5).score
    assert evaluation.knn(train, test, lambda x: x, k=5).score == plain
    assert evaluation.knn(train, test, nn.Identity(), k=5).score == plain
    parts = [Split(part, torch.as_tensor(labels)) for part, labels in (train, test)]
    assert evaluation.knn(*parts, k=5).score == plain
    fitted = DenoisingEncoder(max_epochs=1, n_components=3, random_state=0, objective="mse").fit(x.numpy())
    assert evaluation.linear(*parts, fitted).score > 40
    with pytest.raises(TypeError, match="encoder must have transform"):
        evaluation.knn(train, test, 5)
    # NumPy's float64, in both or in one; and samples that are read from disk.
    double = [(part.double().numpy(), labels) for part, labels in (train, test)]
    assert evaluation.knn(*double, models.build("mlp", (5,), 3, hidden=(8,)), k=5).score > 40
    assert evaluation.knn(train, double[1], k=5).score == evaluation.knn(double[0], test, k=5).score == plain
    on_disk = [(ArraySamples(part, "x"), labels) for part, labels in double]
    assert evaluation.knn(*on_disk, lambda x: x.flatten(1), k=5).score == plain


@pytest.mark.parametrize("offset", [0.0, 0.1, 1e6])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_collapsed_features_are_warned_of(offset, kind):
    x, y = (part[:40] for part in blobs())
    alike = np.full((40, 3), offset, kind) * (1 + np.finfo(kind).eps * (np.arange(40) % 2))[:, None].astype(
        kind
    )
    with pytest.warns(UserWarning, match="features of train are the same for all samples"):
        evaluation.linear((alike, y), (x[:, :3], y))
    evaluation.linear((np.c_[alike, x[:, 0]], y), (np.c_[alike, x[:, 0]], y))  # one that differs is enough


def test_sgd_that_diverges_is_an_error():
    train, test = halves(*blobs())
    with pytest.raises(ValueError, match="head sgd has diverged with learning_rate 30: lower it"):
        evaluation.linear((train[0] * 1e25, train[1]), (test[0] * 1e25, test[1]), head="sgd", epochs=3)


@pytest.mark.parametrize(
    ("size", "kind"), [(1e-200, "f8"), (1e-20, "f4"), (1e-13, "f8"), (1e19, "f4"), (1e200, "f8")]
)
@pytest.mark.parametrize("protocol", [evaluation.linear, lambda *parts: evaluation.knn(*parts, k=5)])
def test_the_size_of_features_does_not_matter(size, kind, protocol):
    train, test = halves(*blobs())
    sized = [((part.double().numpy() * size).astype(kind), labels) for part, labels in (train, test)]
    assert protocol(*sized).score == protocol(train, test).score > 80


def test_samples_that_are_predicted_exactly_do_not_make_the_rest_infinite():
    clean = torch.rand(4, 16, 16, generator=torch.Generator().manual_seed(0))
    noisy = clean.clone()
    noisy[:3] += 0.1 * torch.randn(3, 16, 16, generator=torch.Generator().manual_seed(1))
    some, three = evaluation.denoising(noisy, clean), evaluation.denoising(noisy[:3], clean[:3])
    assert some.metrics["psnr"] == pytest.approx(three.metrics["psnr"])
    assert some.metrics["si_snr"] == pytest.approx(three.metrics["si_snr"])
    assert (some.settings["exact_samples"], three.settings["exact_samples"]) == (1, 0)
    assert evaluation.denoising(clean, clean).metrics["psnr"] == math.inf


def test_labels_may_be_anything_that_can_be_compared():
    x, y = blobs(spread=0.1)
    names = np.array(["ant", "bee", "cat"])[y]
    assert evaluation.linear(*halves(x, names)).score == evaluation.linear(*halves(x, y)).score == 100


def test_classes_that_cannot_be_right_are_warned_of():
    x, y = blobs()
    (train, train_y), test = halves(x, y)
    with pytest.warns(UserWarning, match=r"test has 1 classes that train lacks \(2\)"):
        score = evaluation.knn((train[train_y < 2], train_y[train_y < 2]), test, k=20).score
    assert score <= 100 * np.mean(test[1] < 2)


def test_a_result_is_one_line_of_json():
    x, y = blobs()
    result = evaluation.linear(*halves(x, y))
    line = json.loads(result.to_json())
    assert "\n" not in result.to_json()
    assert line["protocol"] == "linear"
    assert line["score"] == result.score
    assert line["settings"] == {
        "head": "lbfgs",
        "C": 1.0,
        "max_iter": 1000,
        "standardised": True,
        "train": 150,
        "test": 150,
        "features": 5,
        "classes": 3,
    }
    named = {name: importlib.metadata.version(name) for name in ("torch", "numpy", "scipy", "scikit-learn")}
    assert line["versions"] == {"dcs-learn": dcs.__version__, **named}  # the encoder may have been a PCA
    assert line["seconds"] > 0
    numpys = evaluation.knn(*halves(x, y), k=np.int64(5), temperature=np.float32(0.5))
    assert json.loads(numpys.to_json())["settings"] | {"k": 5, "temperature": 0.5} == numpys.settings
    seeded = evaluation.linear(*halves(x, y), head="sgd", epochs=1, seed=np.int64(5))
    assert json.loads(seeded.to_json())["seed"] == 5
    exact = evaluation.denoising(x, x)
    assert exact.metrics["psnr"] == math.inf
    assert json.loads(exact.to_json())["metrics"]["psnr"] is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, y: evaluation.linear((x, y), x), "test must be a dcs.data.Split or a pair"),
        (lambda x, y: evaluation.linear((x, y), Split(x)), "test has no labels"),
        (lambda x, y: evaluation.linear((x, y[:-1]), (x, y)), r"labels of train must be \(300,\)"),
        (lambda x, y: evaluation.linear((x, 0 * y), (x, 0 * y)), "at least two classes"),
        (lambda x, y: evaluation.linear((x, 0 * y), (x, y)), "at least two classes, got only 0"),
        (lambda x, y: evaluation.linear((x, y), (x, y + 7)), "test has no class of train, only 7, 8, 9"),
        (lambda x, y: evaluation.knn((x, y.astype(str)), (x, y + 0.5)), "test has no class of train"),
        (lambda x, y: evaluation.linear((x, gaps(y, np.nan, float)), (x, y)), "9 of 300 labels of train"),
        (lambda x, y: evaluation.linear((x, y), (x, gaps(y, np.nan, float))), "9 of 300 labels of test"),
        (lambda x, y: evaluation.clustering((x, gaps(y, "", str))), "9 of 300 labels of part are missing"),
        (lambda x, y: evaluation.clustering((x, gaps(y, None, object))), "9 of 300 labels of part"),
        (
            lambda x, y: evaluation.clustering((x, gaps(y, "a", object))),
            "labels must be all text or all numbers",
        ),
        (lambda x, y: evaluation.cluster_accuracy(gaps(y, np.nan, float), y), "9 of 300 labels are missing"),
        (lambda x, y: evaluation.cluster_accuracy(y, gaps(y, np.nan, float)), "9 of 300 clusters are"),
        (lambda x, y: evaluation.linear((x[:0], y[:0]), (x, y)), "train has no samples"),
        (lambda x, y: evaluation.clustering((x[:0], y[:0])), "part has no samples"),
        (lambda x, y: evaluation.linear((csr_array(x), y), (x, y)), "train has a sparse matrix"),
        (lambda x, y: evaluation.knn((x, y), (x, y), lambda x: x[:7]), "one row per sample, 300, got 7"),
        (lambda x, y: evaluation.linear((x, y), (x, y), lambda x: x[:1]), "one row per sample, 300, got 1"),
        (lambda x, y: evaluation.knn((x, y), (x, y), lambda x: (x, x)), "got a tuple of 2"),
        (
            lambda x, y: evaluation.knn((x, y), (x, y), nn.GRU(5, 2)),
            "GRU must return a tensor .* got a tuple",
        ),
        (lambda x, y: evaluation.clustering((x, y), min_dist=5), "min_dist must be"),
        (lambda x, y: evaluation.linear((x / 0, y), (x, y)), "features of train have NaN or infinite"),
        (lambda x, y: evaluation.linear((x, y), (x, y), head="svm"), "head must be one of lbfgs, sgd"),
        (lambda x, y: evaluation.linear((x, y), (x, y), C=0), "C must be a finite number above 0"),
        (lambda x, y: evaluation.linear((x[:, 0], y), (x, y)), r"train must have features \(n, d\)"),
        (lambda x, y: evaluation.knn((x, y), (x, y), k=0), "k must be at least 1"),
        (lambda x, y: evaluation.knn((x, y), (x, y), temperature=0), "temperature must be"),
        (lambda x, y: evaluation.linear((x, y), (x[:, :3], y)), "as many features as train, 5, got 3"),
        (lambda x, y: evaluation.knn((x, y), (x[:, :3], y)), "as many features as train, 5, got 3"),
        (lambda x, y: evaluation.denoising(x, x[:, :2]), "clean"),
        (lambda x, y: evaluation.denoising(x, x / 0), "clean has 1500 NaN or infinite entries of 1500"),
        (lambda x, y: evaluation.denoising(x, x, lambda x: x / 0), r"model\(noisy\) has 1500 NaN"),
        (lambda x, y: evaluation.denoising(Split(x)), "clean must be given"),
        (lambda x, y: evaluation.denoising(Split(x), nn.Identity()), "clean must be samples .* got Identity"),
        (lambda x, y: evaluation.denoising(x, x, data_range=0), "data_range must be"),
        (lambda x, y: evaluation.denoising(x, x, 3), "model must have denoise"),
        (lambda x, y: evaluation.cluster_accuracy(y, y[1:]), "clusters must be as many as labels"),
    ],
)
def test_bad_input_is_one_clear_error(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call(*blobs())


def test_the_python_of_the_page_runs():
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)  # noqa: S102  (our own page)
    assert names["result"].score > 60
    assert names["denoised"].score > names["noisy"].score


def test_too_few_iterations_are_warned_of():
    x, y = blobs()
    with pytest.warns(UserWarning, match="stopped after 2 iterations: raise max_iter"):
        evaluation.linear(*halves(x, y), max_iter=2)
