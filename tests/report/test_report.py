"""`dcs report` and `dcs.report.write`: what is on the page, and that text stays text."""

import base64
import contextlib
import hashlib
import io
import json
import re
import shlex
import shutil
import sys
import wave
from html.parser import HTMLParser
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import dcs
from dcs import data, evaluation, experiments, models, objectives, report, runs
from dcs.report import _gallery, _layout, _pictures
from dcs.report._curves import thinned
from dcs.report._gallery import STRIP, shortened
from dcs.report._page import describe_network, describe_objective, page_of
from dcs.report._pictures import Painter, find_painter
from dcs.report._runs import ReportedRun
from dcs.report._scores import ROWS, describe_protocol
from dcs.training import RunError, TrainingConfig, checkpoint
from tests.helpers import QUICK, inside

pytestmark = pytest.mark.filterwarnings("ignore::dcs.training.TrainingWarning")  # so few steps
HOSTILE = [
    "<script>alert(1)</script>",
    "\"'`--><b>",
    "😀 <!-- \u2028 x",
    "</script><img src=x onerror=alert(1)>",
]
RECORD = runs.RunRecord(shape=(2,), training=TrainingConfig())
HOSTILE += ["a" * 5000 + "<b>" + "ü" * 4997]


class Page(HTMLParser):
    """A page as a browser would see it: its elements, its text, and its data."""

    def __init__(self, path):
        super().__init__()
        self.source = Path(path).read_bytes().decode()
        self.tags, self.text, self.raw, self.inside = [], [], {}, ""
        self.heading, self.notes, self.last = "", [], {}
        self.feed(self.source)
        self.data = json.loads(self.raw["data"])

    def handle_starttag(self, name, attributes):
        self.tags.append((name, dict(attributes)))
        self.last = dict(attributes)
        if self.last.get("class") == "note":
            self.notes.append("")
        self.inside = name if name in ("script", "style") else ""
        if name == "script" and dict(attributes).get("id"):
            self.inside = dict(attributes)["id"]

    def handle_endtag(self, name):
        self.inside, self.last = "", {}

    def handle_data(self, text):
        if self.inside:
            self.raw[self.inside] = self.raw.get(self.inside, "") + text
        else:
            self.text.append(text)
        if self.last.get("class") == "note":
            self.notes[-1] += text
        if self.last.get("class") == "name" and "nav" not in [tag for tag, _ in self.tags]:
            self.heading += text

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "digits"
    arguments = ("--noise", "gaussian:0.3", "--data-seed", 3, "--out", out, "--epochs", 4, *QUICK)
    assert inside("fit", "digits", *arguments).returncode == 0
    assert inside("evaluate", out, "--protocol", "linear,denoising").returncode == 0
    return out


@pytest.fixture(scope="module")
def page(run, tmp_path_factory):
    return Page(report.write(run, tmp_path_factory.mktemp("page") / "page.html", map="pca").path)


def test_the_page_says_what_the_run_was(page, run):
    assert "learned 10 features per sample, without labels, from 1,200 samples of digits" in page.words
    assert "of digits with added noise (gaussian:0.3)" in page.words
    assert "training.batch_size 64" in page.words
    assert f"versions.torch {torch.__version__}" in page.words
    encoder, digits = dcs.load(run), data.load("digits", noise=("gaussian", 0.3), seed=3)
    lines = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
    assert f"linear {lines[0]['score']:.2f}" in page.words
    rows = np.rint(np.linspace(0, 596, 512)).astype(int)  # those that are compared
    clean = digits.test.clean[rows].flatten(1)
    cosine = torch.cosine_similarity(clean, torch.from_numpy(encoder.denoise(digits.test))[rows].flatten(1))
    assert page.data["runs"][0]["strips"]["mean_cosines"][1] == pytest.approx(float(cosine.mean()), abs=1e-4)


def test_each_heading_is_followed_by_what_it_shows(page):
    names = [name for name, _ in page.tags if name in ("section", "h2", "p", "div", "table", "article")]
    sections = [i for i, name in enumerate(names) if name == "section"]
    assert len(sections) == 6
    assert all(names[i + 1 : i + 3] == ["h2", "p"] for i in sections)


def test_the_curves_are_the_metrics(page, run):
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines = page.data["runs"][0]["lines"]
    for name in ("loss", "validation_loss", "learning_rate", "k", "snr", "feature_spread"):
        assert lines[name] == pytest.approx([line[name] for line in metrics], rel=1e-5)
    assert lines["epoch"] == [1, 2, 3, 4]
    titles = [chart["title"] for chart in page.data["charts"]]
    assert titles[:3] == ["Loss", "Learning rate", "Expected cosine (k)"]
    assert {"Signal-to-noise ratio", "Feature spread (collapse)"} <= set(titles)
    assert "digits: all metrics" in page.words


def test_the_map_has_every_sample_with_label_cluster_and_snr(page):
    digits, shown = data.load("digits", noise=("gaussian", 0.3), seed=3), page.data["runs"][0]["map"]
    assert shown["labels"] == digits.test.y.tolist()
    assert shown["rows"] == list(range(597))
    assert (shown["part"], shown["of"], shown["names"]) == ("test", 597, None)
    clean = digits.test.clean
    snr = [float(s.norm() / (x - s).norm()) for x, s in zip(digits.test.x, clean, strict=True)]
    assert shown["snr"] == pytest.approx(snr, abs=1e-3)
    assert sorted(set(shown["clusters"])) == list(range(10))
    counts = np.bincount(shown["clusters"])
    assert (np.diff(counts) <= 0).all()


def pictures_of(sheets):
    """Cut the sheets of a page into pictures again."""
    width, height = sheets["tile"]
    found = []
    for source in sheets["sources"]:
        image = np.asarray(Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2]))))
        for number in range(sheets["size"]):
            row, column = divmod(number, sheets["columns"])
            y, x = row * sheets["step"][1], column * sheets["step"][0]
            if y + height <= image.shape[0]:
                found.append(image[y : y + height, x : x + width])
    return np.stack(found)


def test_pictures_are_the_samples(page):
    digits, shown = data.load("digits", noise=("gaussian", 0.3), seed=3), page.data["runs"][0]
    found = pictures_of(page.data["sheets"][shown["map"]["sheets"]])[:597]
    assert (found == np.rint(255 * digits.test.x.clamp(0, 1).numpy()).astype(np.uint8)).all()
    strips = shown["strips"]
    assert strips["rows"] == ["noisy", "denoised", "clean"]
    rows = [int(name.removeprefix("row ")) for name in strips["names"]]
    clean = pictures_of(strips["sheets"])[2 * STRIP : 3 * STRIP]
    assert (clean == np.rint(255 * digits.test.clean[rows].numpy()).astype(np.uint8)).all()


def test_nothing_is_loaded_from_elsewhere(page):
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(page.raw[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    places = [value for _, a in page.tags for key, value in a.items() if key in ("src", "href")]
    assert all(place.startswith(("data:", "#")) for place in places)
    assert not any(key.startswith("on") or key == "style" for _, a in page.tags for key in a)
    assert "innerHTML" not in page.raw["script"].replace("there is no innerHTML", "")
    assert [a.get("type") for name, a in page.tags if name == "script"] == ["application/json", None]


def test_text_from_data_stays_text(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["a,b,c,label"]
    for number in range(60):
        quoted = HOSTILE[number % len(HOSTILE)].replace('"', '""')
        lines.append(",".join(f"{value:.3f}" for value in rng.normal(size=3)) + f',"{quoted}"')
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "<img src=x onerror=alert(1)>"
    arguments = ("--label", "label", "--objective", "mse", "--out", out, "--epochs", 1, *QUICK)
    fitted = inside("fit", tmp_path / "table.csv", *arguments)
    assert fitted.returncode == 0, fitted.stderr
    made = inside("report", out, "--map", "pca")
    assert made.returncode == 0, made.stderr
    page = Page(out / "report.html")
    names = [name for name, _ in page.tags]
    assert not {"img", "b"} & set(names)
    assert names.count("script") == 2
    assert sorted(page.data["runs"][0]["map"]["classes"]) == sorted(HOSTILE)
    assert page.data["runs"][0]["name"] == out.name
    assert out.name in page.words
    assert page.data["runs"][0]["strips"]["kind"] == "profile"
    assert page.data["runs"][0]["map"]["snr"] is None  # nothing says how noisy it is
    assert "<script>alert" not in page.source


@settings(max_examples=60)
@given(st.text(), st.text())
def test_any_text_comes_back_out_of_html_and_json(tmp_path_factory, name, remark):
    path = tmp_path_factory.mktemp("page") / "page.html"
    run = ReportedRun(name, Path("run"), RECORD, [{name: 1.0}], [], False, remarks=(remark,))
    path.write_text(page_of([run], {}), encoding="utf-8", newline="")
    page, plain = Page(path), Page(ordinary_page(path))
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
    assert page.heading == name
    assert remark in page.notes
    assert f"{name}: all metrics" in [a.get("aria-label") for _, a in page.tags]
    assert page.data["runs"][0]["name"] == name
    assert name in page.data["runs"][0]["lines"]
    assert not set("<>&\u2028\u2029") & set(page.raw["data"])


def ordinary_page(beside):
    path = beside.with_name("plain.html")
    run = ReportedRun("plain", Path("run"), RECORD, [{"x": 1.0}], [], False, remarks=("plain",))
    path.write_text(page_of([run], {}), encoding="utf-8")
    return path


def test_names_that_are_no_text_are_shown_all_the_same(run, tmp_path):
    odd = tmp_path / b"run\xff".decode("utf-8", "surrogateescape")
    shutil.copytree(run, odd)
    page = Page(report.write(odd, map="pca", points=20).path)
    assert "Training report: run?" in page.words


def test_several_runs_share_the_pictures_of_the_same_data(run, tmp_path):
    other = tmp_path / "digits"
    shutil.copytree(run, other)
    written = report.write([run, other], tmp_path / "both.html", map="pca")
    page = Page(written.path)
    assert len(page.data["sheets"]) == 1
    assert [one["name"] for one in page.data["runs"]] == [str(run), str(other)]  # as their names are equal
    assert sum(a.get("class") == "map" for _, a in page.tags) == 2
    assert [one["points"] for one in written.runs] == [597, 597]


def test_an_unfinished_run_gets_a_page(run, tmp_path):
    unfinished = tmp_path / "half"
    unfinished.mkdir()
    shutil.copy(run / "config.json", unfinished)
    as_before_its_end(unfinished)
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (unfinished / "metrics.jsonl").write_text(
        "".join(lines[:2]) + lines[2][:20]
    )  # the third is being written
    written = report.write(unfinished)
    assert written.path == unfinished / "report.html"
    page = Page(written.path)
    assert "Training is not finished: 2 of 4 epochs are complete" in page.words
    assert page.words.count("The run has no network yet") == 2
    assert page.data["runs"][0]["lines"]["epoch"] == [1, 2]
    (unfinished / "metrics.jsonl").unlink()
    page = Page(report.write(unfinished).path)
    assert "No epoch is complete yet" in page.words
    assert page.data["charts"] == []


def test_data_that_is_gone_is_said_and_can_be_named(run, tmp_path):
    samples = data.load("digits").train.x[:80].numpy()
    np.save(tmp_path / "x.npy", samples)
    out = tmp_path / "run"
    fitted = inside("fit", tmp_path / "x.npy", "--out", out, "--epochs", 1, *QUICK)
    assert f"{out} is finished after 1 epoch, loss" in fitted.stdout
    (tmp_path / "x.npy").rename(tmp_path / "moved.npy")
    gone = inside("report", out, "--map", "pca")
    assert gone.returncode == 0
    assert "The data of this run could not be read" in gone.stderr
    assert f"give its new location: dcs report {out} --data PATH" in Page(out / "report.html").words
    (tmp_path / "y.txt").write_text("".join(f"kind {i % 3}\n" for i in range(80)))
    named = inside(
        *(
            "report",
            out,
            "--data",
            tmp_path / "moved.npy",
            "--labels",
            tmp_path / "y.txt",
            "--map",
            "pca",
            "--json",
        )
    )
    assert named.returncode == 0, named.stderr
    described = json.loads(named.stdout)
    assert described["runs"][0]["points"] == 80
    assert described["runs"][0]["note"] is None  # it is the same data
    assert described["bytes"] == Path(described["path"]).stat().st_size
    shown = Page(out / "report.html").data["runs"][0]["map"]
    assert shown["classes"] == ["kind 0", "kind 1", "kind 2"]
    assert shown["labels"] == [i % 3 for i in range(80)]
    assert shown["about_snr"].startswith("estimated by dCS")
    wrong = inside("report", out, "--data", tmp_path / "nowhere.npy")
    assert wrong.returncode == 1
    assert "nowhere.npy" in wrong.stderr


def test_a_saved_encoder_has_a_page_too(tmp_path):
    x = data.load("digits").train.x[:100].numpy()
    encoder = dcs.DenoisingEncoder(max_epochs=2, network_options={"hidden": (8,)}, random_state=0).fit(x)
    encoder.save(tmp_path / "saved")
    page = Page(report.write(tmp_path / "saved").path)
    assert "does not record what it was trained on" in page.words
    np.save(tmp_path / "x.npy", x)
    written = report.write(tmp_path / "saved", data=tmp_path / "x.npy", map="pca")
    assert (written.runs[0]["points"], written.runs[0]["note"]) == (100, None)
    old = changed(tmp_path / "saved", tmp_path / "old", fingerprint=None)  # as version 0.1 saved it
    written = report.write(old, data=tmp_path / "x.npy", map="pca")
    assert "x.npy, which may not be the training data" in written.runs[0]["note"]


def test_of_more_samples_a_fixed_choice_is_shown_and_nothing_else_is_read(run, tmp_path, monkeypatch):
    class OnDisk(data.Samples):
        def __init__(self, x):
            self.x, self.shape, self.seen = x, tuple(x.shape), []

        def read(self, indices):
            self.seen += list(indices)
            assert len(indices) <= 512
            return self.x[list(indices)]

    samples = OnDisk(data.load("digits").train.x)
    loaded = data.Dataset("on disk", data.Split(samples))
    monkeypatch.setattr(data.Source, "load", lambda _: loaded)
    written = report.write(run, tmp_path / "a.html", map="pca", points=50)
    shown = Page(written.path).data["runs"][0]["map"]
    assert (len(shown["rows"]), shown["of"], shown["part"]) == (50, 1200, "train")
    assert set(samples.seen) == set(shown["rows"])
    again = report.write(run, tmp_path / "b.html", map="pca", points=50)
    assert again.path.read_bytes() == written.path.read_bytes()
    other = report.write(run, tmp_path / "c.html", map="pca", points=50, seed=1)
    assert Page(other.path).data["runs"][0]["map"]["rows"] != shown["rows"]


@pytest.fixture(scope="module")
def views(tmp_path_factory):
    """A self-supervised run, which has features and predicts nothing."""
    folder, rng = tmp_path_factory.mktemp("views"), np.random.default_rng(0)
    (folder / "photos").mkdir()
    for number in range(24):
        pixels = rng.integers(0, 256, (16, 16, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"{number:02d}.png")
    arguments = ("--objective", "simsiam-dcs", "--epochs", 1, "--threads", 1, "--out", folder / "sim")
    options = ("--set", 'objective_options={"projector": [16, 16], "predictor": 8}')
    fitted = inside("fit", folder / "photos", *arguments, *options)
    assert fitted.returncode == 0, fitted.stderr
    return folder / "sim"


def test_a_self_supervised_run_has_a_map_and_a_note_in_place_of_denoising(views, run, tmp_path):
    made = inside("report", views, run, "--out", tmp_path / "a.html", "--map", "pca", "--json")
    assert made.returncode == 0, made.stderr
    assert [one["note"] for one in json.loads(made.stdout)["runs"]] == [None, None]
    page = Page(tmp_path / "a.html")
    own, other = page.data["runs"]
    assert own["strips"] is None
    assert len(own["map"]["x"]) == 24
    assert own["lines"]["epoch"] == [1]
    assert len(other["strips"]["names"]) == STRIP
    assert page.words.count("there is nothing to denoise with") == 1
    assert [a["data-run"] for _, a in page.tags if a.get("class") == "strips"] == ["1"]
    assert objectives.parse("simsiam-dcs").summary in page.words
    network = "The network resnet18 (ResNet-18 for small images, with a decoder)"
    assert f"{network} learned 512 features per sample" in page.words
    assert own["map"]["features"] == 512


def changed(run, folder, **changes):
    """A copy of a run with another config.json, or with other files: None is removed."""
    shutil.copytree(run, folder)
    for name, content in changes.pop("files", {}).items():
        (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
    config = json.loads((folder / "config.json").read_text())
    for name, value in changes.items():
        config[name] = {**config[name], **value} if isinstance(value, dict) else value
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def as_before_its_end(folder):
    """Take out of config.json what is added when training ends."""
    config = json.loads((folder / "config.json").read_text())
    config |= {"learned": None, "sha256": {}}
    (folder / "config.json").write_text(json.dumps(config))
    return config


def words_of(folder, **options):
    return Page(report.write(folder, **{"map": "pca", "points": 20, **options}).path).words


SPLIT, MASKED = "Each sample is split into two noisier versions", "Some values of each sample are masked, and"
BLIND_SPOT = {"class": "BlindSpot", "rho": 0.3, "radius": 1}


@pytest.mark.parametrize(
    ("view", "shown"),
    [
        ({"kind": "split", "sigma": 0.31234, "alpha": 1.5, "chosen": True}, SPLIT),
        ({"kind": "split", "sigma": [0.1, 0.2, 0.3], "alpha": 1.5}, SPLIT),
        ({"kind": "blind_spot", "rho": 0.3, "chosen": True}, MASKED),
        (BLIND_SPOT, MASKED),
        (None, MASKED),
        ({"kind": "automatic"}, None),
        ({"class": "SomethingElse"}, None),
    ],
)
def test_the_views_that_were_used_are_described(run, tmp_path, view, shown):
    used = json.loads((run / "config.json").read_text())["learned"]["objective"]
    words = words_of(changed(run, tmp_path / "run", learned={"objective": {**used, "view": view}}))
    assert [text for text in (SPLIT, MASKED) if text in words] == ([shown] if shown else [])
    found = "The split uses a noise level of σ = 0.312, estimated from the data"
    assert (found in words) == (view is not None and view.get("sigma") == 0.31234)
    # k is that of the view that is compared with, which has more noise than the sample.
    k = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["k"]
    where = "the noisier versions of the samples" if shown == SPLIT else "the samples"
    assert f"For {where}, k is about {k:.2f} (1: no noise" in words


def test_the_views_of_a_saved_encoder_are_described(tmp_path):
    x = data.load("digits", noise=("gaussian", 0.3)).train.x[:300].numpy()
    np.save(tmp_path / "x.npy", x)
    for name, options in {"chosen": {}, "masked": {"masking": {"rho": 0.3}}}.items():
        encoder = dcs.DenoisingEncoder(
            max_epochs=1, network_options={"hidden": (8,)}, random_state=0, **options
        ).fit(x)
        encoder.save(tmp_path / name)
        shown = SPLIT if getattr(encoder.objective_.masker, "splits", False) else MASKED
        assert shown in words_of(tmp_path / name, data=tmp_path / "x.npy")
    assert shown == MASKED


SCALE = "(0: the same for all samples, 1: all directions)"


@pytest.mark.parametrize(
    ("spread", "epochs", "samples", "finished", "said"),
    [
        (0.0401, 4, 1_000_000, True, f"0.0401 {SCALE}: they distinguish samples and have not collapsed"),
        (0.0223, 4, 1_000_000, True, "they hardly distinguish samples; below 0.02 they count as collapsed"),
        (0.0223, 4, 1_200, True, "they hardly distinguish samples yet; below 0.02 they count as collapsed"),
        (0.0199, 4, 1_000_000, True, f"0.0199 {SCALE}: below 0.02 they have collapsed"),
        (0.0199, 4, 1_200, True, "they are not spread out yet"),
        (0.0199, 4, 1_000_000, False, "they are not spread out yet"),
    ],
)
def test_a_run_has_collapsed_by_one_rule_and_never_early(
    run, tmp_path, spread, epochs, samples, finished, said
):
    lines = b"".join(
        json.dumps({"epoch": e, "loss": 1.0, "feature_spread": spread}).encode() + b"\n"
        for e in range(epochs)
    )
    files = {"metrics.jsonl": lines} | ({} if finished else {"model.safetensors": None})
    folder = changed(run, tmp_path / "run", files=files, samples=samples)
    if not finished:
        as_before_its_end(folder)
    words = words_of(folder)
    assert said in words
    assert words.count("they have collapsed") == ("they have collapsed" in said)


def test_damaged_lines_are_named_and_cost_nothing_else(run, tmp_path):
    lines = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    content = lines[0] + b'{"loss": 0.\n' + lines[2] + lines[3] + b'{"epo'
    folder = changed(run, tmp_path / "run", files={"metrics.jsonl": content})
    made = inside("report", folder, "--map", "pca")
    assert made.returncode == 0, made.stderr
    assert "metrics.jsonl, line 2, is damaged and was skipped" in made.stderr
    page = Page(folder / "report.html")
    assert page.words.count("metrics.jsonl, line 2, is damaged") == 1
    assert page.words.count("is damaged") == 1  # the last line was just being written
    assert page.data["runs"][0]["lines"]["epoch"] == [1, 2, 3, 4]
    assert page.data["runs"][0]["lines"]["loss"][1] is None
    assert len(page.data["runs"][0]["map"]["x"]) == 597  # the network is whole
    assert len(page.data["runs"][0]["strips"]["names"]) == STRIP
    assert page.data["runs"][0]["lines"]["loss"][3] == pytest.approx(json.loads(lines[3])["loss"], rel=1e-5)
    (folder / "metrics.jsonl").write_bytes(lines[0] + lines[1][:30] + b"\n")
    assert "line 2, is damaged" in words_of(folder)
    assert Page(folder / "report.html").data["runs"][0]["lines"]["epoch"] == [1]


@pytest.mark.filterwarnings("ignore:.*has no checkpoint")
def test_the_command_that_resumes_works(tmp_path):
    out = tmp_path / "a run"
    arguments = ("--noise", "gaussian:0.3", "--data-seed", 3, "--out", out, "--epochs", 4, *QUICK)
    assert inside("fit", "digits", *arguments).returncode == 0
    for name in ("model.safetensors", "objective.safetensors"):
        (out / name).unlink(missing_ok=True)
    config = as_before_its_end(out)
    lines = (out / "metrics.jsonl").read_text().splitlines(keepends=True)
    (out / "metrics.jsonl").write_text("".join(lines[:2]))
    words = words_of(out)
    resumed = (
        r"2 of 4 epochs are complete\. If it was interrupted, (dcs fit .*?) starts over, as there is no "
        r"checkpoint yet"
    )
    command = re.search(resumed, words)[1]
    went_on = inside(*shlex.split(command)[1:])
    assert went_on.returncode == 0, went_on.stderr
    again = json.loads((out / "config.json").read_text())
    assert (again["source"], again["fingerprint"]) == (config["source"], config["fingerprint"])
    assert again["training"] == config["training"]


def test_how_scores_are_made_depends_on_the_labels(run, tmp_path):
    labelled = changed(run, tmp_path / "run", files={"results.jsonl": None})
    words = words_of(labelled)
    assert f"No scores yet. To compute them, run dcs evaluate {labelled} ." in words
    np.save(tmp_path / "x.npy", data.load("digits").train.x[:80].numpy())
    arguments = ("--out", tmp_path / "bare", "--epochs", 1, *QUICK)
    assert inside("fit", tmp_path / "x.npy", *arguments).returncode == 0
    words = words_of(tmp_path / "bare")
    assert f"To compute them, run dcs evaluate {tmp_path / 'bare'} --labels FILE , where FILE is" in words
    assert "The data has no labels" in words
    (tmp_path / "y.txt").write_text("".join(f"{i % 2}\n" for i in range(80)))
    assert inside("evaluate", tmp_path / "bare", "--labels", tmp_path / "y.txt").returncode == 0


def test_data_of_another_shape_is_refused_with_what_can_be_done(run, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((9, 5), np.float32))
    made = inside("report", run, "--out", tmp_path / "a.html", "--data", tmp_path / "x.npy")
    assert made.returncode == 1
    assert "samples of shape (5,), but" in made.stderr
    assert "with --data" in made.stderr
    assert "--mixed" not in made.stderr


def test_few_things_are_counted_in_words_that_fit(run, tmp_path):
    line = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)[0]
    folder = changed(run, tmp_path / "one", files={"metrics.jsonl": line}, samples=1)
    words = words_of(folder)
    assert f"The loss was {json.loads(line)['loss']:.4g} in the only epoch." in words
    assert "from 1 sample of" in words
    assert "1 epochs" not in words
    gone = words_of(changed(run, tmp_path / "gone", files={"model.safetensors": None}))
    assert (
        "Training finished after 4 epochs, but the network is missing: there is no model.safetensors" in gone
    )
    assert "not finished" not in gone
    empty = words_of(changed(run, tmp_path / "empty", files={"metrics.jsonl": b""}))
    assert "metrics.jsonl is empty or missing" in empty
    assert "was not trained" not in empty


def test_a_link_is_written_through(run, tmp_path):
    (tmp_path / "there").mkdir()
    link, page = tmp_path / "page.html", tmp_path / "there" / "page.html"
    link.symlink_to(page)
    for _ in range(2):
        report.write(run, link, map="pca", points=20)
        assert link.is_symlink()
        assert "digits" in Page(page).words


def test_equal_results_are_marked_alike_and_marks_are_explained(experiment, tmp_path):
    lines = [json.loads(line) for line in (experiment / "results.jsonl").read_text().splitlines()]
    scores = {"mse": 71.0, "dcs": 71.0, "oracle": 99.0}
    folder = tmp_path / "ties"
    folder.mkdir()
    with (folder / "results.jsonl").open("w") as file:
        for line in lines:
            file.write(json.dumps({**line, "score": scores.get(line["method"], 50.0) + line["trial"]}) + "\n")
    page = Page(report.write(folder).path)
    marked = re.findall(r"<strong>([^<]*)</strong>", page.source)
    assert len(marked) == 2
    assert all(text.startswith("71.50") for text in marked)
    assert "Bold is the best of a column, underlined the second best" in page.words
    assert "oracle (trained with the clean samples, which no method has)" in page.words


def test_every_part_and_row_is_described():
    assert all(name in ROWS for one in experiments.EXPERIMENTS.values() for name in one.orientation)
    assert all(objectives.parse(name).summary in describe_objective(name) for name in objectives.names())
    assert all(entry.summary.rstrip(".") in describe_network(name) for name, entry in models.NETWORKS.items())
    assert all(describe_protocol(name) == entry.summary for name, entry in evaluation.PROTOCOLS.items())
    assert describe_protocol("theirs") == describe_objective("custom") == ""


def test_a_registered_part_appears_with_its_own_summary(run, tmp_path):
    class Mine(objectives.MSE):
        """Compare as I like."""

    def ours(shape, n_components=10, *, width=8):
        """Build our network"""
        return models.build("mlp", shape, n_components, hidden=[width])

    registries = {
        "objectives.OBJECTIVES": (objectives.OBJECTIVES, "mine", Mine),
        "models.NETWORKS": (models.NETWORKS, "ours", ours),
        "evaluation.PROTOCOLS": (evaluation.PROTOCOLS, "theirs", lambda material: None),
    }
    with contextlib.ExitStack() as stack:
        for registry, name, part in registries.values():
            stack.enter_context(mock.patch.dict(registry))
            registry.register(name, summary="Their score" if name == "theirs" else "")(part)
        training = {"objective": "mine", "network": "ours", "network_options": {}}
        own = changed(run, tmp_path / "own", training=training, learned={"objective": None})
        line = json.loads((run / "results.jsonl").read_text().splitlines()[0])
        scored = {**line, "protocol": "theirs", "metrics": {"f1": 0.5}}
        (own / "results.jsonl").write_text(json.dumps(scored) + "\n")
        (own / "model.safetensors").unlink()
        words = words_of(own)
    assert "The network ours (Build our network) learned 10 features per sample" in words
    assert "The objective was mine. Compare as I like." in words
    assert f"theirs {line['score']:.2f}" in words
    assert "theirs : Their score." in words
    assert "f1 0.5" in words


def test_parts_that_were_given_as_objects_are_called_custom(run, tmp_path):
    training = {"objective": "custom", "network": "custom", "network_options": {}}
    words = words_of(changed(run, tmp_path / "own", training=training, learned={"objective": None}))
    assert "A custom network learned 10 features per sample" in words
    assert "The objective was custom. " in words
    assert "The network of this run could not be read" in words


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    out = tmp_path_factory.mktemp("experiment") / "expt0"
    trials = experiments.plan(
        *("expt0", "smoke"), methods=["mse", "dcs"], protocols=["linear"], trials=2, epochs=1, train_size=128
    )
    experiments.carry_out(trials, out)
    return out


def test_an_experiment_is_beside_the_published_values(experiment, tmp_path):
    results = experiment / "results.jsonl"
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    page = Page(report.write(experiment, map="pca").path)
    assert f"Experiment with {len(lines)} trials so far" in page.words
    assert not any("badge" in a.get("class", "") for _, a in page.tags)  # more may have been planned
    assert "This page shows one of its runs: digits-0.3-dcs-default-train128-1epochs-0" in page.words
    assert len(page.data["runs"][0]["map"]["x"]) == 597
    assert f"All trials ({len(lines)})" in page.words
    assert "Expt0: MNIST with Gaussian noise, here on digits. Linear evaluation" in page.words
    renamed = tmp_path / "mnist"  # as if it had been the paper's data
    renamed.mkdir()
    with (renamed / "results.jsonl").open("w") as file:
        file.writelines(json.dumps({**line, "dataset": "mnist"}) + "\n" for line in lines)
    page = Page(report.write(renamed).path)
    for method in ("mse", "dcs"):
        mean, deviation = experiments.published("expt0", "mnist", 0.3, method, "linear")
        assert f"{mean:.2f} ± {deviation:.2f}" in page.words
    assert "It has no run to show yet" in page.words
    assert "Expt0: MNIST with Gaussian noise. Linear evaluation" in page.words


def test_a_training_of_an_experiment_knows_its_trial(experiment):
    one = experiment / "runs" / "digits-0.3-dcs-default-train128-1epochs-1"
    page = Page(report.write(one, map="pca").path)
    assert "All trials (1)" in page.words
    assert page.data["runs"][0]["strips"]["rows"] == ["noisy", "denoised", "clean"]


def test_the_views_of_an_experiment_are_recorded(experiment, tmp_path):
    one = experiment / "runs" / "digits-0.3-dcs-default-train128-1epochs-0"
    record = runs.read_record(one)
    view = record.learned.objective["view"]
    assert (view["kind"], view["chosen"]) == ("split", True)
    assert 0.3 <= view["sigma"] < 0.4
    assert SPLIT in words_of(one)
    assert dcs.load(one).objective_.masker.splits
    wanted = [json.loads(line) for line in (experiment / "results.jsonl").read_text().splitlines()]
    (experiment / "results.jsonl").rename(tmp_path / "results.jsonl")
    try:  # finished runs are loaded: the results are the same
        experiments.carry_out([experiments.key_of(line) for line in wanted], experiment)
        again = [json.loads(line) for line in (experiment / "results.jsonl").read_text().splitlines()]
    finally:
        (tmp_path / "results.jsonl").replace(experiment / "results.jsonl")
    found = {experiments.key_of(line): (line["score"], line["settings"]) for line in again}
    assert found == {experiments.key_of(line): (line["score"], line["settings"]) for line in wanted}
    for folder in (experiment / "runs").iterdir():  # also the oracle, which no settings can name
        assert dcs.load(folder).shape_ == (8, 8)
    shutil.copytree(one, tmp_path / "old")  # as written before views were recorded
    (tmp_path / "old" / "objective.safetensors").unlink()
    config = json.loads((one / "config.json").read_text())
    config["learned"]["objective"] = None
    del config["sha256"]["objective.safetensors"]
    (tmp_path / "old" / "config.json").write_text(json.dumps(config))
    words = words_of(tmp_path / "old")
    assert SPLIT not in words
    assert MASKED not in words
    assert objectives.parse("dcs").summary in words


def test_every_trial_of_an_experiment_has_its_samples(experiment):
    written = report.write(sorted((experiment / "runs").iterdir()), map="pca", points=30)
    assert {(one["points"], one["note"]) for one in written.runs} == {(30, None)}
    part = report.write(next((experiment / "runs").iterdir()), map="pca", part="train")
    assert part.runs[0]["samples"] == 128  # those it was trained on


def test_a_run_of_version_0_1_has_its_samples(run, tmp_path):
    config = json.loads((run / "config.json").read_text())
    source, learned = config["source"], config["learned"]
    described = {"source": source["data"], "noise": "gaussian:0.3", "seed": 3, "samples": config["samples"]}
    old = {
        "data": {**described, "fingerprint": config["fingerprint"]},
        "made_of": "DenoisingCosine(masker=ChosenViews(sigma=0.3, alpha=1.5))",
        "shape": config["shape"],
        "training": config["training"],
        "scale": learned["scale"],
        "largest": learned["largest"],
        "versions": config["versions"],
        "sha256": config["sha256"],
    }
    shutil.copytree(run, tmp_path / "old")
    (tmp_path / "old" / "config.json").write_text(json.dumps(old))
    shown = report.write(tmp_path / "old", map="pca")
    assert (shown.runs[0]["points"], shown.runs[0]["note"]) == (597, None)
    page = Page(shown.path)
    assert SPLIT in page.words  # from objective.safetensors
    assert "of digits with added noise (gaussian:0.3)" in page.words
    trial = {"source": "digits", "root": None, "noise": 0.3, "part": "train", "samples": 1200}
    old |= {"data": trial, "method": "dcs", "variant": "default"}
    (tmp_path / "old" / "config.json").write_text(json.dumps(old))
    assert report.write(tmp_path / "old", map="pca").runs[0]["points"] == 597


def test_other_data_than_that_of_the_training_is_said(run, tmp_path):
    x = data.load("digits").train.x.numpy()
    np.save(tmp_path / "other.npy", x[:50])
    written = report.write(run, tmp_path / "a.html", data=tmp_path / "other.npy", map="pca")
    remark = f"The samples shown are those of {tmp_path / 'other.npy'}, which is not the training data."
    assert written.runs[0]["note"] == remark
    page = Page(written.path)
    assert page.words.count(remark) == 2  # for the samples, and for the map
    assert len(page.data["runs"][0]["map"]["x"]) == 50
    np.save(tmp_path / "same.npy", x)
    same = report.write(run, tmp_path / "a.html", data=tmp_path / "same.npy", map="pca")
    assert same.runs[0]["note"] is None


def test_a_run_that_is_named_twice_is_shown_once(run, tmp_path):
    written = report.write([run, run.parent / "." / run.name, str(run)], tmp_path / "a.html", map="pca")
    assert [one["name"] for one in written.runs] == ["digits"]


def test_a_stopped_run_goes_on_from_its_checkpoint(run, tmp_path):
    folder = changed(run, tmp_path / "half", files={"model.safetensors": None, "objective.safetensors": None})
    as_before_its_end(folder)
    words = words_of(folder)
    assert "starts over, as there is no checkpoint yet" in words
    assert "only checkpoints" not in words
    checkpoint.save(mkdir(folder / "checkpoint"), 3, {}, {}, keep=1)
    words = words_of(folder)
    assert "--data-seed=3 resumes it." in words
    assert words.count("The run has no network yet, only checkpoints to resume from") == 2
    (folder / "metrics.jsonl").unlink()
    assert "No epoch is complete yet. If it was interrupted, dcs fit digits" in words_of(folder)


def mkdir(folder):
    folder.mkdir()
    return folder


def test_words_are_explained_and_plain(page):
    terms = ("noise", "expected cosine (k)", "dCS", "epoch", "held-out samples", "spread, collapse", "label")
    assert all(re.search(rf"<dt>{re.escape(term)}</dt><dd>[^<]{{20,}}</dd>", page.source) for term in terms)
    for hard in ("common factor", "train_accuracy", "expected cosine k", "the floor"):
        assert hard not in page.words + str(page.data["charts"])
    assert "accuracy on the training samples of the classifier, %: " in page.words


def test_noise_levels_of_normalised_images_are_described_as_such():
    split = {"view": {"kind": "split", "sigma": 0.441, "alpha": 1.5, "chosen": True}}
    assert describe_objective("dcs", split).endswith("estimated from the data.")
    for normalised, data_ in ((True, "the images after colour normalisation."), (False, "the data.")):
        described = {"augment": "Views()", "view": None, "regulariser": split, "normalised": normalised}
        assert describe_objective("simsiam-dcs", described).endswith(f"estimated from {data_}")
    masked = {"augment": "Views()", "view": BLIND_SPOT, "regulariser": None, "normalised": True}
    assert describe_objective("simsiam+bsm", masked) == objectives.parse("simsiam+bsm").summary
    scale = "The overall brightness or loudness of a prediction does not count"
    assert scale in describe_objective("dcs", split)
    assert scale not in describe_objective("n2v", {"view": BLIND_SPOT})


def test_recordings_can_be_seen_and_heard(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    rng = np.random.default_rng(0)
    for number in range(24):
        path = tmp_path / "sounds" / ("low", "high")[number % 2] / f"{number:02d}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        tone = np.sin(np.arange(1024) * (0.2, 0.7)[number % 2])
        soundfile.write(path, 0.3 * tone + 0.1 * rng.normal(size=1024), 8000, subtype="FLOAT")
    networks = {
        "vit": ("--set", 'network_options={"width": 24, "depth": 1}', "--components", 24),
        "waveunet": ("--set", 'network_options={"width": 8, "depth": 2}', "--components", 8),
    }
    for network, further in networks.items():
        out = tmp_path / network
        arguments = ("--network", network, "--epochs", 1, "--threads", 1, *further)
        fitted = inside("fit", tmp_path / "sounds", "--out", out, *arguments)
        assert fitted.returncode == 0, fitted.stderr
    page = Page(report.write([tmp_path / name for name in networks], map="pca").path)
    for one in page.data["runs"]:
        assert one["strips"]["kind"] == "spectrogram"
        assert one["map"]["classes"] == ["high", "low"]
        assert sorted(one["map"]["names"])[0] == "high/01.wav"
    assert page.words.count("The denoised versions should contain less hiss") == 1
    assert page.words.count("works on spectrograms, which cannot be turned back into recordings") == 1
    players = [a["src"] for name, a in page.tags if name == "audio"]
    assert len(players) == 3 + 2 * 3  # a spectrogram cannot be heard
    first = next(name for name in page.data["runs"][1]["strips"]["names"])
    with wave.open(io.BytesIO(base64.b64decode(players[3].partition(",")[2]))) as heard:
        assert (heard.getframerate(), heard.getnframes(), heard.getnchannels()) == (8000, 1024, 1)
        signal = np.frombuffer(heard.readframes(1024), "<i2").astype(float)
    recorded, _ = soundfile.read(tmp_path / "sounds" / first)
    assert np.corrcoef(signal, recorded)[0, 1] > 0.999


def test_a_report_is_replaced_and_nothing_else_is(run, tmp_path):
    out = tmp_path / "page.html"
    assert inside("report", run, "--out", out, "--map", "pca", "--points", 30).returncode == 0
    assert inside("report", run, "--out", out, "--map", "pca", "--points", 30).returncode == 0
    out.write_text("<p>mine")
    refused = inside("report", run, "--out", out, "--map", "pca", "--points", 30)
    assert refused.returncode == 1
    assert "is not a report: give another file, or pass --overwrite" in refused.stderr
    assert out.read_text() == "<p>mine"
    assert inside("report", run, "--out", out, "--map", "pca", "--points", 30, "--overwrite").returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_open_shows_the_page(run, tmp_path):
    with mock.patch("webbrowser.open", return_value=True) as opened:
        assert inside("report", run, "--out", tmp_path / "a.html", "--map", "pca", "--open").returncode == 0
    opened.assert_called_once_with((tmp_path / "a.html").as_uri())
    with mock.patch("webbrowser.open", return_value=False):
        made = inside("report", run, "--out", tmp_path / "a.html", "--map", "pca", "--open")
    assert "open it" in made.stderr.replace(f"open {tmp_path / 'a.html'} yourself", "open it")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"runs": []}, ValueError, "runs is empty"),
        ({"runs": 3}, TypeError, "runs must be a path or a list of paths"),
        ({"runs": [None]}, TypeError, "runs must be"),
        ({"runs": "nowhere"}, RunError, "nowhere is not a directory"),
        ({"out": 3}, TypeError, "out must be a path"),
        ({"out": "."}, ValueError, "out must be a file"),
        ({"out": "nowhere/a.html"}, ValueError, "does not exist"),
        ({"out": "page.txt"}, ValueError, "out must end in .html, got page.txt"),
        ({"data": 3}, TypeError, "data must be a path"),
        ({"labels": 3}, TypeError, "labels must be a path"),
        ({"labels": "missing.npy"}, OSError, "missing.npy"),
        ({"root": 3}, TypeError, "root must be a path"),
        ({"part": "both"}, ValueError, "part must be one of train, test"),
        ({"map": "tsne"}, ValueError, "map must be one of umap, pca"),
        ({"points": 0}, ValueError, "points must be at least 1"),
        ({"clusters": 0}, ValueError, "clusters must be at least 1"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"overwrite": 1}, TypeError, "overwrite must be True or False"),
    ],
)
def test_bad_arguments_are_named(run, tmp_path, options, error, words):
    with pytest.raises(error, match=re.escape(words)):
        report.write(**{"runs": run, "out": tmp_path / "a.html", "map": "pca", **options})
    assert not (tmp_path / "a.html").exists()


def test_directories_that_are_no_runs_are_refused(tmp_path):
    with pytest.raises(RunError, match="holds no run"):
        report.write(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(RunError, match=re.escape("config.json is damaged")):
        report.write(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(RunError, match="is not the record of a run"):
        report.write(tmp_path)


def test_a_network_that_diverged_is_said(run, tmp_path):
    with mock.patch("dcs.runs.Predictor.denoise", lambda _, part: np.full(part.x.shape, np.nan, np.float32)):
        written = report.write(run, tmp_path / "a.html", map="pca")
    assert "training has diverged" in written.runs[0]["note"]


def test_a_network_that_cannot_be_read_is_said(run, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(run, damaged)
    (damaged / "model.safetensors").write_bytes(b"no tensors")
    made = inside("report", damaged)
    assert made.returncode == 0
    assert "could not be read" in made.stderr
    assert "is damaged" in made.stderr
    page = Page(damaged / "report.html")
    assert page.words.count("The network of this run could not be read") == 2
    assert page.data["runs"][0]["lines"]["epoch"] == [1, 2, 3, 4]


def test_help_has_an_example():
    assert "Example: dcs report run" in inside("report", "--help").stdout
    assert inside("report").returncode == 2


# The parts.


@pytest.mark.parametrize("colours", [(), (3,)])
def test_sheets_hold_pictures_exactly_or_nearly(colours):
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (2600, 24, 20, *colours)).astype(np.uint8)  # more than a sheet
    exact = _pictures.pack(pictures, 10**9)
    assert (pictures_of(exact)[:2600] == pictures).all()
    budget = sum(map(len, exact["sources"])) // 3
    smaller = _pictures.pack(pictures, budget)
    assert sum(map(len, smaller["sources"])) <= budget
    assert smaller["sources"][0].startswith("data:image/jpeg")
    smooth = np.repeat(np.linspace(0, 255, 2600).astype(np.uint8), 120).reshape(2600, 12, 10)
    nearly = _pictures._encode(smooth, 75)
    assert (
        np.abs(pictures_of(nearly)[:2600].astype(int) - smooth).max() <= 3
    )  # neighbours do not shine through


def test_ten_thousand_noisy_pictures_fit_into_a_page():
    pictures = np.random.default_rng(0).integers(0, 256, (10_000, 28, 28)).astype(np.uint8)  # the worst case
    assert sum(map(len, _pictures.pack(pictures, 5_000_000)["sources"])) <= 5_000_000


def test_images_are_drawn_from_black_to_white():
    x = torch.tensor([[[0.0, 0.5], [1.0, 2.0]]])
    assert Painter("image", 0, 1).paint(x, 32).tolist() == [[[0, 128], [255, 255]]]
    large = torch.rand(2, 3, 64, 32, generator=torch.Generator().manual_seed(0))
    painted = Painter("image", 0, 1).paint(large, 32)
    assert painted.shape == (2, 32, 16, 3)
    mean = large.reshape(2, 3, 32, 2, 16, 2).mean((3, 5)).permute(0, 2, 3, 1).numpy()  # of 2 x 2 pixels
    assert np.abs(painted - 255 * mean).max() <= 0.51
    assert Painter("image", 0, 1).paint(torch.rand(1, 5, 8, 8), 32).shape == (1, 8, 8)


def test_profiles_are_bars_from_zero():
    painted = Painter("profile", -1, 1).paint(torch.tensor([[1.0, -1.0, 0.5, 0.0]]), 32)[0]
    height, width = painted.shape
    bars = painted[:, :: width // 4] > 0
    assert bars.sum(0).tolist() == [height // 2, height // 2, height // 4, 0]
    assert bars[: height // 2, 0].all()
    assert bars[height // 2 :, 1].all()
    assert Painter("profile", 0, 1).paint(torch.rand(2, 500), 32).shape == (2, 32, 48)


def test_profiles_far_from_zero_are_bars_from_their_middle():
    waves = 5 * torch.sin(torch.arange(48) / 4).expand(20, -1) + 0.1 * torch.randn(
        20, 48, generator=torch.Generator().manual_seed(0)
    )
    for offset in (293, -293):
        painter = find_painter(data.Split(waves + offset), None, None)
        assert painter.base == pytest.approx(offset, abs=1)
        white = (painter.paint(waves + offset, 32) > 0).mean()
        assert 0.2 < white < 0.5  # and neither a block nor a thread
    assert find_painter(data.Split(waves + 3), None, None).base == 0


def test_what_is_black_and_white_follows_the_data():
    images = torch.rand(20, 8, 8, generator=torch.Generator().manual_seed(0))
    noisy = images + torch.randn(20, 8, 8, generator=torch.Generator().manual_seed(1))
    assert find_painter(data.Split(noisy, clean=images), None, None)[:3] == ("image", 0.0, 1.0)
    low, high = find_painter(data.Split(100 * noisy), None, None)[1:3]
    assert (low, high) == pytest.approx(tuple(np.quantile(100 * noisy.numpy(), [0.01, 0.99])), rel=1e-5)
    low, high = find_painter(data.Split(torch.zeros(3, 8, 8)), None, None)[1:3]
    assert low < 0 < high
    sound = find_painter(data.Split(torch.randn(3, 600)), None, 8000)
    assert sound.kind == "spectrogram"
    assert sound.paint(sound.levels(torch.randn(3, 600)), 32).shape[0] == 3
    assert find_painter(data.Split(torch.randn(3, 600)), None, None).kind == "profile"


def test_the_map_by_pca_is_that_of_the_largest_directions():
    z = np.random.default_rng(0).normal(size=(50, 5)) * [1, 5, 2, 0.1, 1]
    places, kind, remark = _layout.lay_out(z, "pca", 0)
    assert (kind, remark) == ("pca", "")
    left, values, _ = np.linalg.svd(z - z.mean(0), full_matrices=False)
    expected = left[:, :2] * values[:2]
    for found, wanted in zip(places.T, expected.T, strict=True):
        assert abs(np.corrcoef(found, wanted)[0, 1]) == pytest.approx(1)
    assert places.min(0).tolist() == [0, 0]
    assert places.max() == 1
    for flat in (z[:, :1], np.ones((4, 3)), z[:1]):
        assert np.isfinite(_layout.lay_out(flat, "pca", 0)[0]).all()
    assert _layout.lay_out(z[:5], "umap", 0)[1:] == ("pca", "5 samples are too few for UMAP")


def test_without_umap_there_is_a_map_all_the_same():
    with mock.patch.dict(sys.modules, {"umap": None}):
        _, kind, remark = _layout.lay_out(np.eye(30), None, 0)
        with pytest.raises(ImportError, match=re.escape("dcs-learn[clustering]")):
            _layout.lay_out(np.eye(30), "umap", 0)
    assert kind == "pca"
    assert "UMAP" in remark


def test_umap_is_shown_how_far_it_is():
    """A stand-in for UMAP, which takes a while: it reports as tqdm does."""
    told = []

    class Stand:
        def __init__(self, tqdm_kwds, n_epochs, **_):
            self.bar, self.epochs = tqdm_kwds, n_epochs

        def fit_transform(self, z):
            tqdm = pytest.importorskip("tqdm").tqdm
            for _ in tqdm(range(self.epochs), **{**self.bar, "mininterval": 0}):
                pass
            return z[:, :2]

    class Bar:
        def __enter__(self):
            return told.append

        def __exit__(self, *_):
            return False

    with (
        mock.patch.dict(sys.modules, {"umap": mock.Mock(UMAP=Stand)}),
        mock.patch("dcs.report._layout.progress", return_value=Bar()),
    ):
        _layout.lay_out(np.random.default_rng(0).normal(size=(40, 3)), "umap", 0)
    assert sum(told) == 200
    assert len(told) > 10


def test_clusters_are_found_and_numbered_by_size():
    rng = np.random.default_rng(0)
    centres = np.repeat([[0, 0], [50, 0], [0, 50]], [10, 30, 20], axis=0)
    found = _layout.cluster(centres + rng.normal(size=(60, 2)), 3, 0)
    assert found.tolist() == [2] * 10 + [0] * 30 + [1] * 20
    assert set(_layout.cluster(np.ones((5, 2)), 3, 0)) == {0}  # a network that collapsed


def test_recordings_fit_into_the_page():
    for rate, length, kinds in ((44_100, 220_500, 2), (8_000, 100, 3), (192_000, 10**7, 1)):
        count = _gallery.playable_length(rate, length, kinds)
        assert 0 < count <= length
        assert 2 * count * kinds * _gallery.RECORDINGS <= 1_200_000
    signal = np.sin(np.arange(100, dtype=np.float32))
    with wave.open(
        io.BytesIO(base64.b64decode(_gallery.as_wav(signal, 8000, 2.0).partition(",")[2]))
    ) as heard:
        read = np.frombuffer(heard.readframes(100), "<i2")
    assert np.abs(read / 32767 - np.clip(2 * signal, -1, 1)).max() < 1e-4


def test_names_lose_their_middle_where_there_is_no_room():
    assert shortened(["a" * 10_000, "b"]) == ["a" * 10_000, "b"]
    names = [f"{number:05d}" + "😀" * 500 + ".png" for number in range(3000)]
    short = shortened(names)
    assert sum(len(name.encode()) for name in short) <= 1_000_000
    assert all(name[:5] == f"{number:05d}" and name.endswith(".png") for number, name in enumerate(short))


@given(st.integers(0, 5000), st.integers(2, 300))
def test_of_many_epochs_some_are_kept_with_both_ends(n, most):
    rows = thinned(n, most)
    assert len(rows) <= max(most, 0)
    assert rows == sorted(set(rows))
    if n:
        assert (rows[0], rows[-1]) == (0, n - 1)


def test_text_can_be_read_in_both_themes():
    """The contrast of WCAG, level AA: 4.5 for text."""
    style = (Path(report.__file__).parent / "assets" / "page.css").read_text()

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    blocks = re.findall(r"color-scheme: \w+;\s*(--[^}]*)}", style)
    assert len(blocks) == 3
    for block in blocks:
        colours = dict(re.findall(r"--(\w+): (#\w{6})", block))
        for text in ("text", "quiet", "accent", "good", "warn", "bad"):
            for back in ("back", "card", *(["note"] if text == "text" else [])):
                light, dark = sorted((luminance(colours[text]), luminance(colours[back])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, back)
