"""`dcs evaluate` as a user drives it."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

import dcs
from dcs import data, evaluation, experiments
from tests.helpers import QUICK, inside
from tests.helpers import dcs as command


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    fitted = inside(
        "fit", "digits", "--noise", "gaussian:0.3", "--data-seed", 3, "--out", out, "--epochs", 30, *QUICK
    )
    assert fitted.returncode == 0, fitted.stderr
    return out


def lines(run):
    return [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]


def test_a_run_is_scored_on_what_it_was_trained_on(run):
    result = command("evaluate", run, "--protocol", "linear,knn,denoising", "--json")
    assert result.returncode == 0, result.stderr
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    assert printed == lines(run)[-3:]
    digits = data.load("digits", noise=("gaussian", 0.3), seed=3)
    encoder = dcs.load(run)
    scores = [
        evaluation.linear(digits.train, digits.test, encoder).score,
        evaluation.knn(digits.train, digits.test, encoder).score,
        evaluation.denoising(digits.test.x, digits.test.clean, encoder).score,
    ]
    assert [line["score"] for line in printed] == pytest.approx(scores)
    assert scores[0] > 50
    needed = (
        "experiment dataset noise method variant protocol trial seed epochs score settings versions seconds"
    )
    assert all(set(needed.split()) <= set(line) for line in printed)
    assert printed[0]["method"] == "dcs"
    assert printed[0]["epochs"] == 30
    assert printed[2]["settings"]["evaluation"]["data_range"] == 1
    fresh = inside("evaluate", run, "--protocol", "denoising", "--data-seed", 5, "--data-range", 2, "--json")
    settings = json.loads(fresh.stdout)["settings"]["evaluation"]
    assert (settings["data"]["seed"], settings["data_range"]) == (5, 2)
    before = len(lines(run))
    plain = inside("evaluate", run)
    assert "linear: " in plain.stdout
    assert "knn: " in plain.stdout
    assert len(lines(run)) == before + 2


@pytest.fixture
def own(tmp_path):
    """Digits without labels, and the labels in files of their own."""
    digits = load_digits()
    np.save(tmp_path / "x.npy", digits.images[:300].astype(np.float32) / 16)
    np.save(tmp_path / "y.npy", digits.target[:300])
    (tmp_path / "y.txt").write_text("label\n" + "\n".join(f"class {y}" for y in digits.target[:300]) + "\n")
    fitted = inside("fit", tmp_path / "x.npy", "--out", tmp_path / "run", "--epochs", 3, *QUICK)
    assert fitted.returncode == 0, fitted.stderr
    return tmp_path


def test_labels_from_a_file(own):
    scores = []
    for name in ("y.npy", "y.txt"):
        result = inside("evaluate", own / "run", "--labels", own / name, "--protocol", "linear", "--json")
        assert result.returncode == 0, result.stderr
        line = json.loads(result.stdout)
        assert line["settings"]["evaluation"]["test"] == 60
        scores.append(line["score"])
    assert scores[0] == scores[1] > 20
    (own / "y.txt").write_text((own / "y.txt").read_text() + "\n \n")  # blank lines at the end are none
    few = inside("evaluate", own / "run", "--labels", own / "y.txt", "--protocol", "knn", "--k", 7, "--json")
    assert few.returncode == 0, few.stderr
    assert json.loads(few.stdout)["settings"]["evaluation"]["k"] == 7
    usual = inside("evaluate", own / "run", "--labels", own / "y.txt", "--protocol", "knn", "--json")
    assert json.loads(usual.stdout)["settings"]["evaluation"]["k"] == 240 // 5


def test_labels_from_a_file_are_not_mixed_with_those_of_a_test_split(run, tmp_path):
    """However the classes are called, the score is one: that on the samples that the file has labels of."""
    digits = data.load("digits", noise=("gaussian", 0.3), seed=3)
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    np.save(tmp_path / "numbers.npy", digits.train.y.numpy())
    (tmp_path / "words.txt").write_text("".join(f"{words[y]}\n" for y in digits.train.y))
    scores = []
    for name in ("numbers.npy", "words.txt"):
        result = inside("evaluate", run, "--labels", tmp_path / name, "--protocol", "linear", "--json")
        assert result.returncode == 0, result.stderr
        assert "the test split of digits is not used" in result.stderr
        scores.append(json.loads(result.stdout)["score"])
    order = torch.randperm(1200, generator=torch.Generator().manual_seed(0))
    parts = [(digits.train.x[rows], digits.train.y[rows]) for rows in (order[240:], order[:240])]
    assert scores == pytest.approx([evaluation.linear(*parts, dcs.load(run)).score] * 2)
    assert scores[0] > 50


def test_a_test_split_without_labels_is_not_scored_on(own):
    x, y = np.load(own / "x.npy"), np.load(own / "y.npy")
    np.savez(own / "some.npz", x_train=x[:200], y_train=y[:200], x_test=x[200:])
    result = inside("evaluate", own / "run", "--data", own / "some.npz", "--protocol", "linear", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["settings"]["evaluation"]["test"] == 40


def test_a_folder_of_classes_keeps_its_options(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(40):
        kind, size = ("dark", "light")[number % 2], 8 + number % 3
        path = tmp_path / "photos" / kind / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        level = 60 if kind == "dark" else 190
        Image.fromarray(rng.integers(level - 40, level + 40, (size, size)).astype(np.uint8)).save(path)
    fit = inside(
        "fit", tmp_path / "photos", "--mixed", "crop", "--out", tmp_path / "run", "--epochs", 3, *QUICK
    )
    assert fit.returncode == 0, fit.stderr
    result = inside("evaluate", tmp_path / "run", "--protocol", "knn", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["settings"]["evaluation"]["classes"] == 2


def test_lines_tell_what_their_scores_depend_on(own):
    def scored(*arguments):
        result = inside("evaluate", own / "run", "--labels", own / "y.npy", "--json", *arguments)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout.splitlines()[0])["settings"]["evaluation"]["data"]

    plain = scored()
    assert plain["data"] == str(own / "x.npy")
    assert plain["labels"] == str(own / "y.npy")
    assert plain["held_out"] == {"share": 0.2, "seed": 0}
    assert plain["noise"] is None
    assert plain["seed"] == 0
    assert scored("--seed", 1, "--test-share", 0.3)["held_out"] == {"share": 0.3, "seed": 1}
    noisy = scored("--noise", "gaussian:0.1", "--data-seed", 7)
    assert (noisy["noise"], noisy["seed"]) == ("gaussian:0.1", 7)


def test_the_head_can_be_simsiams(run):
    result = inside("evaluate", run, "--protocol", "linear", "--head", "sgd", "--seed", 2, "--json")
    assert result.returncode == 0, result.stderr
    line = json.loads(result.stdout)
    assert (line["settings"]["evaluation"]["head"], line["settings"]["evaluation"]["seed"]) == ("sgd", 2)
    digits = data.load("digits", noise=("gaussian", 0.3), seed=3)
    expected = evaluation.linear(digits.train, digits.test, dcs.load(run), head="sgd", seed=2)
    assert line["score"] == pytest.approx(expected.score)
    assert inside("evaluate", run, "--head", "svm").returncode == 2


def test_half_a_line_of_a_process_that_was_ended_is_cut_off(own):
    whole = '{"score": 1.0}\n'
    (own / "run" / "results.jsonl").write_text(whole + '{"score": 2.')
    result = inside("evaluate", own / "run", "--labels", own / "y.npy", "--protocol", "knn", "--json")
    assert result.returncode == 0, result.stderr
    assert (own / "run" / "results.jsonl").read_text() == whole + result.stdout


def test_encoders_of_an_experiment_are_scored(tmp_path):
    expt0 = [
        *("reproduce", "expt0", "--preset", "smoke", "--epochs", 1, "--protocol", "linear"),
        *("--losses", "cosine", "--variant", "paper", "--train-size", 1200, "--out", tmp_path),
    ]
    assert inside(*expt0).returncode == 0
    (there,) = [line for line in lines(tmp_path) if line["method"] == "oracle"]
    (oracle,) = (tmp_path / "runs").glob("*oracle*")
    result = inside("evaluate", oracle, "--protocol", "linear", "--json")
    assert result.returncode == 0, result.stderr
    line = json.loads(result.stdout)
    assert line["score"] == pytest.approx(there["score"])
    assert (line["method"], line["variant"]) == ("oracle", "paper")
    assert line["noise"] == "gaussian:0.3"


@pytest.mark.filterwarnings("ignore::ImportWarning", "ignore:.*n_jobs")  # of UMAP
def test_an_encoder_that_has_seen_the_test_split_is_told_of(tmp_path):
    (trial,) = [
        t
        for t in experiments.plan("expt0", "smoke", protocols=["clustering"], methods=["mse"], epochs=1)
        if t.method == "mse"
    ]
    root = tmp_path / "root"
    experiments.run_trial(trial, tmp_path, str(root))
    seen = inside("evaluate", tmp_path / trial.name, "--protocol", "knn", "--json")
    assert seen.returncode == 0, seen.stderr
    assert "has learned from the test split, too" in seen.stderr
    assert json.loads(seen.stdout)["settings"]["evaluation"]["data"]["root"] == str(root)
    other = inside("evaluate", tmp_path / trial.name, "--protocol", "knn", "--data", "digits")
    assert (other.returncode, other.stderr) == (0, "")


def test_denoising_needs_no_labels_of_the_test_split(own):
    x, y = np.load(own / "x.npy"), np.load(own / "y.npy")
    np.savez(own / "some.npz", x_train=x[:200], y_train=y[:200], x_test=x[200:])
    asked = ["--data", own / "some.npz", "--noise", "gaussian:0.1", "--protocol", "knn,denoising", "--k", 5]
    result = inside("evaluate", own / "run", *asked, "--json")
    assert result.returncode == 0, result.stderr
    knn, denoised = (json.loads(line)["settings"]["evaluation"] for line in result.stdout.splitlines())
    assert (knn["test"], denoised["samples"]) == (40, 100)
    assert (knn["data"]["held_out"], denoised["data"]["held_out"]) == ({"share": 0.2, "seed": 0}, None)


def test_a_saved_encoder_needs_to_be_told_its_data(own):
    x = np.load(own / "x.npy")
    dcs.DenoisingEncoder(max_epochs=1, network_options={"hidden": (8,)}, random_state=0).fit(x).save(
        own / "saved"
    )
    missing = inside("evaluate", own / "saved", "--labels", own / "y.npy")
    assert missing.returncode == 1
    assert "give it with --data" in missing.stderr
    told = inside("evaluate", own / "saved", "--data", own / "x.npy", "--labels", own / "y.npy")
    assert told.returncode == 0, told.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--protocol", "liner"], "protocol must be a known name, got 'liner': did you mean 'linear'"),
        ([], "x.npy has no labels: give them with --labels\n"),
        (["--protocol", "denoising"], "needs clean data"),
        (["--protocol", ","], "protocol is empty"),
        (["--labels", "missing.npy"], "missing.npy"),
        (["--labels", "text.npy"], "labels text.npy is not a .npy file"),
        (["--labels", "short.txt"], "short.txt has 2 labels, but the data has 300 training samples"),
        (["--labels", "nan.npy"], "labels nan.npy has 1 missing labels of 300"),
        (["--labels", "blank.txt"], "labels blank.txt has 100 missing labels of 300"),
        (["--labels", "latin.txt"], "labels latin.txt is not UTF-8 text"),
        (["--labels", "one.txt"], "one.txt has one class only, a: at least two"),
        (["--labels", "pairs.npy"], "labels pairs.npy must be (n,), one per sample, got shape (150, 2)"),
        (["--labels", "x.npy"], "labels x.npy must be (n,), one per sample"),
        (["--data", "nowhere/"], "nowhere"),
    ],
)
def test_what_a_user_can_mend_is_one_line(own, arguments, words, monkeypatch):
    monkeypatch.chdir(own)
    (own / "short.txt").write_text("a\nb\n")
    (own / "text.npy").write_text("a\n")
    np.save(own / "nan.npy", np.array([0.0] * 150 + [1.0] * 149 + [np.nan]))
    np.save(own / "pairs.npy", np.arange(300).reshape(150, 2) % 3)
    (own / "blank.txt").write_text("a\n\nb\n" * 100)
    (own / "latin.txt").write_bytes(b"\xe9\n" * 300)
    (own / "one.txt").write_text("a\n" * 300)
    result = inside("evaluate", own / "run", *arguments)
    assert result.returncode == 1
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (own / "run" / "results.jsonl").exists()


def test_wrong_usage_and_help():
    assert command("evaluate").returncode == 2
    assert "Example: dcs evaluate run" in command("evaluate", "--help").stdout
