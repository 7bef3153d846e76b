"""Expt2: its trials, its table, a run on digits, and the recipes of the paper."""

import json

import pytest
import torch
from safetensors.torch import load_file

from dcs import augmentation, data, evaluation, experiments, models, objectives
from dcs.data import Dataset, Split
from dcs.experiments import expt2
from dcs.runs import Run, Stopped
from dcs.training import make_objective
from tests.helpers import dcs
from tests.official_files import some_images, write_cifar10, write_tiny_imagenet

pytestmark = pytest.mark.filterwarnings("ignore:.*which all vote")  # of a few images


def one(method, **options):
    """The trial of a method with the first seed."""
    planned = experiments.plan("expt2", **{"preset": "smoke", "methods": [method], "trials": 1, **options})
    return next(trial for trial in planned if trial.method == method)


def config_of(trial):
    return experiments.make_config(trial, Dataset(trial.dataset, Split(torch.zeros(2, 3, 32, 32))))


def test_the_papers_amount():
    trials = experiments.plan("expt2", "paper")
    assert len(trials) == 3 * (4 + 2)
    assert {t.epochs for t in trials if t.method != "untrained"} == {800}
    weights = {(t.dataset, t.weight) for t in trials if t.method == "simsiam-dcs"}
    assert weights == {("cifar10", 0.01), ("cifar100", 0.01), ("tiny-imagenet", 0.02)}
    assert {t.weight for t in trials if t.method in ("simsiam", "simsiam+bsm", "supervised")} == {0}


@pytest.mark.parametrize(
    ("dataset", "network", "rate", "decay", "projector", "fixed"),
    [
        ("cifar10", "resnet18", 0.03, 5e-4, (2048, 2048), False),
        ("cifar100", "resnet18", 0.03, 5e-4, (2048, 2048), False),
        ("tiny-imagenet", "resnet50", 0.05, 1e-4, (2048, 2048, 2048), True),
    ],
)
def test_the_papers_recipe(dataset, network, rate, decay, projector, fixed):
    config = config_of(one("simsiam-dcs", preset="paper", datasets=[dataset], variants=["paper"]))
    assert (config.network, config.network_options, config.batch_size) == (network, {}, 512)
    assert (config.optimizer, config.momentum, config.schedule) == ("sgd", 0.9, "cosine")
    assert (config.learning_rate, config.weight_decay, config.warmup_epochs) == (rate, decay, 0)
    assert config.fixed_predictor_rate is fixed
    objective = make_objective(config)
    assert (objective.widths, objective.hidden, objective.how) == (projector, 512, "separate")
    assert objective.regulariser.variant == "paper"
    assert (objective.regulariser.masker.rho, objective.regulariser.masker.min_masked) == (0.1, 0)
    assert objective.augment.blur == 0


def test_variants_of_the_regularisers():
    by_variant = {
        variant: make_objective(config_of(one("simsiam-n2v", variants=[variant])))
        for variant in ("default", "paper")
    }
    assert by_variant["paper"].regulariser.masker.rho == 0.1
    assert by_variant["default"].regulariser.masker.rho == 0.3
    shared = make_objective(config_of(one("byol-dcs", hows=["shared"])))
    assert (type(shared), shared.how, shared.weight) == (objectives.BYOL, "shared", 0.01)
    masked = make_objective(config_of(one("simsiam+bsm")))
    assert (masked.masker.rho, masked.regulariser) == (0.1, None)


def test_the_sweep_of_table_4():
    trials = experiments.plan("expt2", "smoke", lambdas=[0.0001, 0.05])
    assert [(t.method, t.weight) for t in trials] == [("simsiam-dcs", 0.0001), ("simsiam-dcs", 0.05)]
    assert len({t.name for t in trials}) == 2
    both = experiments.plan(
        "expt2", "smoke", methods=["simsiam-n2v"], lambdas=[0.1], hows=["separate", "shared"]
    )
    assert [(t.method, t.weight, t.how) for t in both] == [
        ("simsiam-n2v", 0.1, "separate"),
        ("simsiam-n2v", 0.1, "shared"),
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lambdas": [-0.1]}, "lambdas must be above 0"),
        ({"lambdas": []}, "lambdas is empty"),
        ({"lambdas": [0.1], "methods": ["simsiam"]}, "methods with lambdas must be one of simsiam-n2v"),
        ({"hows": ["twice"]}, "hows must be one of separate, shared"),
        ({"noises": [0.3]}, "noises are for expt0: expt2 adds none"),
        ({"folds": [5]}, "folds are for expt3: expt2 has none"),
        ({"protocols": ["linear", "clustering"]}, "protocols must be one of linear, got 'clustering'"),
        ({"datasets": ["mnist"]}, "datasets must be one of cifar10, cifar100, tiny-imagenet, digits"),
        ({"methods": ["dcs"]}, "methods must be one of simsiam, simsiam[+]bsm, simsiam-n2v, simsiam-dcs"),
        ({"experiment": "expt0", "lambdas": [0.1]}, "lambdas are for expt2: expt0 has no regulariser"),
    ],
)
def test_wrong_plans_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        experiments.plan(**{"experiment": "expt2", **options})


def test_names_of_older_runs_are_as_they_were():
    old = experiments.Trial("expt0", "mnist", 0.5, "dcs", "default", "linear", 2, 80, 12_800)
    assert old.name == "mnist-0.5-dcs-default-train12800-80epochs-2"
    assert old._replace(precision="bf16", protocol="clustering").name == (
        "mnist-0.5-dcs-default-all12800-80epochs-bf16-2"
    )
    line = {**old._asdict(), "score": 90.0}
    for name in ("precision", "fold", "weight", "how", "scale"):
        del line[name]  # as results that are older have it
    assert experiments.key_of(line) == old


def test_shifted_images_by_hand():
    x = torch.rand(40, 3, 8, 6, generator=torch.Generator().manual_seed(0))
    views = expt2.shift(x, torch.Generator().manual_seed(1))
    padded = torch.nn.functional.pad(x, [4] * 4)
    found = set()
    for image, view in zip(padded, views, strict=True):
        for mirrored in (False, True):
            for down in range(9):
                for right in range(9):
                    crop = image[:, down : down + 8, right : right + 6]
                    if torch.equal(crop.flip(2) if mirrored else crop, view):
                        found.add((mirrored, down, right))
    assert len({mirrored for mirrored, _, _ in found}) == 2
    assert len(found) > 25  # 40 images drew among 162 places
    again = expt2.shift(x, torch.Generator().manual_seed(1))
    assert torch.equal(again, views)


def test_supervised_is_cross_entropy():
    views = augmentation.Views(mean=(0.5,), std=(0.25,))
    labels = torch.tensor([0, 2, 1, 2])
    objective = expt2.Supervised(views, 32, 3, seed=0)
    model = models.build("resnet18", (3, 8, 8), width=4).eval()
    x = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    pair = labels.float().reshape(-1, 1, 1, 1).expand(x.shape)
    loss = objective(model, x, torch.Generator().manual_seed(3), pair)
    seen = (expt2.shift(x, torch.Generator().manual_seed(3)) - 0.5) / 0.25
    logits = objective.classifier(model.encode(seen)).detach().double()
    expected = -sum(
        float(row[label] - row.exp().sum().log()) for row, label in zip(logits, labels, strict=True)
    )
    assert float(loss.detach()) == pytest.approx(expected / 4, rel=1e-5)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    out = tmp_path_factory.mktemp("smoke") / "out"
    arguments = ("reproduce", "expt2", "--preset", "smoke", "--out", out)
    results = [dcs(*arguments), dcs(*arguments, "--lambdas", "0.01,0.05", "--json")]
    for result in results:
        assert result.returncode == 0, result.stderr
    return out, results


def test_smoke_has_every_row_and_the_sweep(smoke):
    out, (result, sweep) = smoke
    table, swept = experiments.tables(experiments.read_results(out))
    rows = ["simsiam", "simsiam+bsm", "simsiam-n2v (default)", "simsiam-dcs (default)"]
    assert table.rows == [*rows, "untrained", "supervised"]
    assert swept.rows == ["simsiam-dcs (default, λ = 0.01)", "simsiam-dcs (default, λ = 0.05)"]
    # The trial with the paper's λ is in both, and was run once.
    assert ", 1 of them to run here" in sweep.stderr
    assert [json.loads(line)["weight"] for line in sweep.stdout.splitlines()] == [0.01, 0.05]
    (column,) = table.columns.values()
    (of_sweep,) = swept.columns.values()
    assert column["simsiam-dcs (default)"].scores == of_sweep[swept.rows[0]].scores
    assert column["untrained"].rank is column["supervised"].rank is None
    assert "256 samples, 2 epochs, trials: 1, the smaller network of the preset smoke" in result.stdout
    assert "; a step of simsiam takes " in result.stdout
    assert "relative to which simsiam+bsm " in result.stdout
    written = (out / "table.md").read_text()
    assert "### Linear evaluation with different λ, %" in written
    for line in experiments.read_results(out):
        assert 0 <= line["metrics"]["knn"] <= 100
        assert ("step_seconds" in line["metrics"]) == (line["method"] != "untrained")
        assert line["settings"]["evaluation"]["head"] == "lbfgs"


def test_a_report_shows_the_samples_that_were_made(smoke):
    out, _ = smoke
    result = dcs("report", out)
    assert result.returncode == 0, result.stderr
    page = (out / "report.html").read_text()
    assert "cannot be shown" not in page
    assert "could not be read" not in page


@pytest.mark.parametrize("method", ["simsiam-dcs", "supervised"])
def test_a_run_is_scored_by_evaluate_as_its_trial_was(smoke, method):
    """On normalised images, also where the objective, an object, is not there any more."""
    out, _ = smoke
    line = next(line for line in experiments.read_results(out) if line["method"] == method)
    folder = out / experiments.RUNS / experiments.key_of(line).name
    result = dcs("evaluate", folder, "--protocol", "linear,knn", "--k", 200, "--json")
    assert result.returncode == 0, result.stderr
    scores = [json.loads(text)["score"] for text in result.stdout.splitlines()]
    assert scores == [line["score"], line["metrics"]["knn"]]


def test_the_paper_s_preset_has_simsiam_s_classifier(tmp_path):
    trial = one("simsiam", train_size=64)._replace(method="untrained", scale="paper", epochs=0)
    used = experiments.run_trial(trial, tmp_path)["settings"]["evaluation"]
    assert (used["head"], used["learning_rate"]) == ("sgd", 30)


@pytest.mark.filterwarnings("ignore:.*expected cosine at the floor")  # these images are noise
def test_every_method_runs_and_normalised_images_are_scored(tmp_path):
    write_cifar10(tmp_path / "cifar10", some_images((3, 32, 32)), [b"%d" % number for number in range(10)])
    methods = [*expt2.METHODS, *expt2.FURTHER]
    assert len(methods) == 15
    trials = experiments.plan("expt2", "smoke", datasets=["cifar10"], methods=methods, epochs=1)
    assert len(trials) == 17
    experiments.carry_out(trials, tmp_path / "out", root=str(tmp_path))
    lines = experiments.read_results(tmp_path / "out")
    assert len(lines) == 17
    line = next(line for line in lines if line["method"] == "simclr-dcs")
    network = models.build("resnet18", (3, 32, 32), width=4).eval()
    folder = tmp_path / "out" / "runs" / experiments.key_of(line).name
    network.load_state_dict(load_file(folder / "model.safetensors"))
    found = data.load("cifar10", root=tmp_path)
    mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in augmentation.CIFAR10)
    with torch.no_grad():
        train, test = ((network.encode((s.x - mean) / std), s.y) for s in (found.train, found.test))
    expected = evaluation.linear(train, test)
    assert line["score"] == pytest.approx(expected.score)
    assert line["metrics"]["train_accuracy"] == pytest.approx(expected.metrics["train_accuracy"])
    assert line["metrics"]["knn"] == pytest.approx(evaluation.knn(train, test).score)


@pytest.mark.filterwarnings("ignore:.*expected cosine at the floor")
def test_files_like_tiny_imagenet(tmp_path):
    write_tiny_imagenet(tmp_path / "tiny-imagenet-200", some_images((3, 64, 64), 3), ["n1", "n2", "n3"])
    trials = experiments.plan("expt2", "smoke", datasets=["tiny-imagenet"], methods=["simsiam-dcs"], epochs=2)
    experiments.carry_out(trials, tmp_path / "out", root=str(tmp_path))
    (table,) = experiments.tables(experiments.read_results(tmp_path / "out"))
    (column,) = table.columns.values()
    assert column["simsiam-dcs (default)"].published == (53.77, None)
    assert "45 hours for simsiam" in experiments.as_markdown(table)


def test_published_values_are_the_papers():
    assert experiments.published("expt2", "cifar100", 0.0, "simsiam-n2v", "linear") == (64.59, None)
    assert experiments.published("expt2", "cifar10", 0.0, "simsiam-dcs", "linear", 0.05) == (91.46, None)
    assert experiments.published("expt2", "tiny-imagenet", 0.0, "simsiam-dcs", "linear", 0.05) is None
    assert experiments.published("expt2", "cifar10", 0.0, "byol", "linear") is None
    assert experiments.published("expt2", "cifar10", 0.0, "simsiam-n2v", "linear", 0.01) is None


def test_a_training_that_was_stopped_goes_on(tmp_path, monkeypatch):
    trial = one("byol-dcs", epochs=2, train_size=128)
    whole = experiments.run_trial(trial, tmp_path / "whole")
    steps = []
    after_step = Run.after_step

    def stopping(self, state):
        steps.append(1)
        return after_step(self, state) or len(steps) == 3

    monkeypatch.setattr(Run, "after_step", stopping)
    with pytest.raises(Stopped):
        experiments.run_trial(trial, tmp_path / "stopped")
    resumed = experiments.run_trial(trial, tmp_path / "stopped")
    assert len(steps) == 4
    assert resumed["score"] == whole["score"]
    assert resumed["metrics"]["knn"] == whole["metrics"]["knn"]
