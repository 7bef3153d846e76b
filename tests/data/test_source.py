"""Sources: what they accept, how they are written down, and what they load."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import dcs
from dcs.data import DataError, NoiseSpec, Samples, Source, fingerprint, load, parse_label
from dcs.noise.corruption import KINDS

OLD_RUNS = Path(__file__).parents[1] / "runs/version-0.1"
KIND = st.sampled_from(KINDS)
STRENGTH = st.floats(0, 1e6)


def described(name):
    config = json.loads((OLD_RUNS / name / "config.json").read_text())
    return config["data"], config["shape"]


# Noise and sizes


@given(KIND, STRENGTH)
def test_noise_is_its_text(kind, strength):
    spec = NoiseSpec.of((kind, strength))
    assert NoiseSpec.of(str(spec)) == spec
    assert NoiseSpec.model_validate_json(spec.model_dump_json()) == spec
    assert json.loads(spec.model_dump_json()) == str(spec)


def test_noise_in_a_source():
    assert str(NoiseSpec.of("gaussian:0.5")) == "gaussian:0.5"
    for given_ in ("speckle:2", ("speckle", 2), ["speckle", 2.0], NoiseSpec(kind="speckle", strength=2)):
        source = Source.of("digits", noise=given_)
        assert (source.noise.kind, source.noise.strength) == ("speckle", 2.0)
        assert source.model_dump()["noise"] == "speckle:2"


@pytest.mark.parametrize(
    ("noise", "says"),
    [
        ("gaussian", "noise must be KIND:STRENGTH, e.g. gaussian:0.5, got 'gaussian'"),
        ("gaussian:much", "noise must be KIND:STRENGTH, e.g. gaussian:0.5, got 'gaussian:much'"),
        ("gaussian:0.5:1", "noise must be KIND:STRENGTH"),
        (0.5, "noise must be KIND:STRENGTH"),
        (("gaussian", True), "noise must be KIND:STRENGTH"),
        (("gaussian", None), "noise must be KIND:STRENGTH"),
        ("gausian:0.5", "noise must be one of gaussian, .*, got 'gausian': did you mean 'gaussian'?"),
        ("gaussian:-1", "strength of noise must be a finite number of at least 0, got -1"),
        ("gaussian:nan", "strength of noise must be a finite number"),
        ("gaussian:inf", "strength of noise must be a finite number"),
    ],
)
def test_wrong_noise(noise, says):
    for call in (NoiseSpec.of, lambda noise: Source.of("digits", noise=noise)):
        with pytest.raises(ValueError, match=says):
            call(noise)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("64", 64),
        ("48x64", (48, 64)),
        ("48X64", (48, 64)),
        (64, 64),
        ((48, 64), (48, 64)),
        ([48, 64], (48, 64)),
    ],
)
def test_sizes(size, expected):
    source = Source.of("photos/", size=size)
    assert source.size == expected
    assert Source.model_validate_json(source.model_dump_json()) == source
    assert Source.of("photos/", size=np.int64(3)).size == 3


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"size": "a"}, r"size must be a number or \(height, width\), e\.g\. 64 or 48x64, got 'a'"),
        ({"size": "1x2x3x4"}, "size must be a number"),
        ({"size": (1,)}, "size must be a number"),
        ({"size": 1.5}, "size must be a number"),
        ({"size": True}, "size must be a number"),
        ({"size": "0x3"}, "size must be at least 1, got 0"),
        ({"size": -3}, "size must be at least 1, got -3"),
        ({"axes": "YZ"}, "axes must be letters from STCZYX, .* got 'YZ'"),
        ({"axes": "XYX"}, "each at most once"),
        ({"axes": 3}, "axes must be letters"),
        ({"rate": 0}, "rate must be at least 1, got 0"),
        ({"fold": "5"}, "fold must be an integer, got '5'"),
        ({"subset": 0}, "subset must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"seed": None}, "seed must be a valid integer, got None"),
        ({"mixed": "stretch"}, "mixed must be one of auto, windows, crop, resize, pad, error, got 'stretch'"),
        ({"part": "test"}, "part must be one of train, all, got 'test'"),
        ({"prepare": "grey"}, "prepare must be one of flat, rgb, got 'grey'"),
        ({"skip_bad": 1}, "skip_bad must be True or False, got 1"),
        ({"label": 1.5}, "label must be a valid"),
        ({"nois": "gaussian:1"}, "unknown option 'nois': did you mean 'noise'"),
    ],
)
def test_a_wrong_value_is_one_sentence(options, says):
    with pytest.raises(ValueError, match=says) as raised:
        Source.of("digits", **options)
    assert "\n" not in str(raised.value)
    with pytest.raises(ValueError, match=says):
        Source.model_validate({"data": "digits", **options})


def test_a_source_inside_another_model():
    class Record(BaseModel):
        source: Source | None

    record = Record(source=Source.of("digits", noise="gaussian:0.5", size=None))
    assert Record.model_validate_json(record.model_dump_json()) == record
    with pytest.raises(ValueError, match="unknown option 'nois'"):
        Record.model_validate_json('{"source": {"data": "digits", "nois": "x"}}')


SOURCES = st.builds(
    lambda **options: Source(data="digits", **options),
    noise=st.none() | st.tuples(KIND, STRENGTH),
    seed=st.integers(0, 2**40),
    label=st.none() | st.booleans() | st.integers(-5, 5) | st.text(),
    mixed=st.sampled_from(["error", "resize", "crop", "pad", "windows"]),
    size=st.none() | st.integers(1, 99) | st.tuples(st.integers(1, 99), st.integers(1, 99)),
    rate=st.none() | st.integers(1, 99),
    skip_bad=st.booleans(),
    fold=st.none() | st.integers(1, 5),
    part=st.sampled_from(["train", "all"]),
    subset=st.none() | st.integers(1, 99),
    prepare=st.sampled_from([None, "flat", "rgb"]),
)


@given(SOURCES)
def test_json_both_ways(source):
    for again in (
        Source.model_validate_json(source.model_dump_json()),
        Source.model_validate(json.loads(json.dumps(source.model_dump(mode="json")))),
        Source(**source.model_dump()),
    ):
        assert again == source
        assert type(again.label) is type(source.label)


def test_paths_are_absolute_and_names_are_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mnist").mkdir()
    (tmp_path / "photos").mkdir()
    assert Source.of("mnist", root="here").root == str(tmp_path / "here")
    assert Source.of("mnist").data == "mnist"
    assert Source.of("./mnist").data == Source.of(Path("mnist")).data == str(tmp_path / "mnist")
    assert Source.of("photos").data == str(tmp_path / "photos")
    assert Source.of("none/a.npy").data == str(tmp_path / "none/a.npy")
    assert Source.of("~/a").data == str(Path.home() / "a")
    with pytest.raises(FileNotFoundError, match=r"'minst' is neither .* did you mean 'mnist'"):
        Source.of("minst").load()


def test_options_of_a_command():
    assert Source.of("digits").as_options() == []
    source = Source.of("digits", noise=("gaussian", 0.3), seed=1, root="/r", label=False, mixed="crop")
    source = source.model_copy(update={"size": (48, 64), "rate": 8000, "skip_bad": True})
    options = ["--noise=gaussian:0.3", "--data-seed=1", "--root=/r", "--label=none", "--mixed=crop"]
    assert source.as_options() == [*options, "--size=48x64", "--rate=8000", "--skip-bad"]
    assert [parse_label(text) for text in ("none", "3", "-1", "kind")] == [False, 3, -1, "kind"]


# Loading


def test_it_loads_what_load_loads():
    source = Source.of("digits", noise="gaussian:0.5", seed=3)
    one, other = source.load(), load("digits", noise=("gaussian", 0.5), seed=3)
    for split in ("train", "test"):
        for field in ("x", "y", "clean"):
            assert torch.equal(getattr(getattr(one, split), field), getattr(getattr(other, split), field))
    with pytest.raises(ValueError, match="rate is not applicable to digits"):
        Source.of("digits", rate=3).load()


def test_all_is_both_splits_with_their_own_noise():
    noisy = load("digits", noise=("gaussian", 0.5))
    found = Source.of("digits", noise="gaussian:0.5", part="all").load()
    assert found.test is found.train
    for field in ("x", "y", "clean"):
        parts = [getattr(split, field) for split in (noisy.train, noisy.test)]
        assert torch.equal(getattr(found.train, field), torch.cat(parts))
    fewer = Source.of("digits", part="all", subset=100).load()
    assert (len(fewer.train), len(fewer.test)) == (100, 1797)


def test_a_subset_is_always_the_same():
    everything, found = load("digits"), Source.of("digits", subset=256).load()
    rows = torch.randperm(1200, generator=torch.Generator().manual_seed(0))[:256]
    assert torch.equal(found.train.x, everything.train.x[rows])
    assert torch.equal(found.train.y, everything.train.y[rows])
    assert len(found.test) == 597
    assert len(Source.of("digits", subset=5000).load().train) == 1200


def test_a_subset_of_files_is_in_memory(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(30.0).reshape(10, 3))
    found = Source.of(tmp_path / "a.npy", subset=4).load()
    rows = torch.randperm(10, generator=torch.Generator().manual_seed(0))[:4]
    assert torch.equal(found.train.x, torch.arange(30.0).reshape(10, 3)[rows])
    assert isinstance(Source.of(tmp_path / "a.npy").load(resident=False).train.x, Samples)
    for options in ({"prepare": "flat"}, {"noise": "gaussian:1"}):
        with pytest.raises(DataError, match="resident=True"):
            Source.of(tmp_path / "a.npy", **options).load(resident=False)


def test_samples_are_prepared(tmp_path):
    pixels = torch.rand(5, 2, 8, generator=torch.Generator().manual_seed(0))
    np.save(tmp_path / "a.npy", pixels.numpy())
    flat = Source.of(tmp_path / "a.npy", prepare="flat", noise="gaussian:0").load().train
    assert flat.x.shape == flat.clean.shape == (5, 16)
    assert torch.equal(flat.x[:, 0::2], pixels[:, 0])
    assert torch.equal(flat.x[:, 1::2], pixels[:, 1])
    rgb = Source.of("digits", prepare="rgb").load()
    assert rgb.train.x.shape == (1200, 3, 16, 16)
    assert rgb.test.x.shape == (597, 3, 16, 16)
    assert torch.equal(rgb.train.x[:, 1, 1::2, ::2], load("digits").train.x)
    np.save(tmp_path / "b.npy", np.zeros((5, 2)))
    for prepare in ("flat", "rgb"):
        with pytest.raises(DataError, match=f"prepare='{prepare}' is for"):
            Source.of(tmp_path / "b.npy", prepare=prepare).load()


# Rows of a split


def test_rows_carry_all_that_is_known(tmp_path):
    for number in range(3):
        values = np.random.default_rng(number).uniform(-1, 1, 250)
        soundfile.write(tmp_path / f"{number}.wav", values, 8000, subtype="FLOAT")
    for resident in (True, False):
        train = load(tmp_path, mixed="windows", size=200, resident=resident).train
        taken = train.take(torch.tensor([2, 0]))
        assert isinstance(taken.x, torch.Tensor)
        assert torch.equal(taken.x, train.read([2, 0]))
        assert list(taken.names) == ["2.wav", "0.wav"]
        assert torch.equal(taken.items.whole(0), train.items.whole(2))
    noisy = load("digits", noise=("gaussian", 0.5)).train
    rows = torch.zeros(1200, dtype=torch.bool)
    rows[[3, 7]] = True
    taken = noisy.take(rows)
    assert torch.equal(taken.clean, noisy.clean[[3, 7]])
    assert torch.equal(taken.y, noisy.y[[3, 7]])
    assert len(noisy.take([])) == 0
    padded = load(tmp_path, mixed="pad", size=300).train.take(range(2))
    assert padded.lengths.tolist() == [250, 250]


# Recordings are read as those of the training


@pytest.fixture
def sounds(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.random.default_rng(0).uniform(-1, 1, 250), 8000)
    return tmp_path


def test_recordings_are_read_as_trained(sounds):
    trained = Source.of(sounds, mixed="windows", size=100)
    trained = trained.as_read(trained.load())
    assert trained.rate == 8000
    plain = Source.of(sounds)
    assert plain.reading_as(trained, 100) == trained
    assert plain.reading_as(trained, None).size is None
    own = Source.of(sounds / "a.wav", size="80", rate=4000)
    assert own.reading_as(trained, 100) == own
    cropped = Source.of(sounds, mixed="crop").reading_as(trained, 100)
    assert (cropped.mixed, cropped.size, cropped.rate) == ("crop", 100, 8000)
    from_esc50 = plain.reading_as(Source.of("esc50"), 220_500)
    assert (from_esc50.rate, from_esc50.size, from_esc50.mixed) == (44_100, 220_500, "auto")
    assert Source.of("digits").reading_as(trained, 100) == Source.of("digits")
    assert plain.reading_as(Source.of("digits"), 8) == plain
    assert Source.of("esc50").as_read(load("tones")) == Source.of("esc50")


# Version 0.1


def test_what_version_1_wrote_of_a_fit():
    data, _ = described("fit")
    source = Source.from_version_1(data)
    assert source == Source.of("digits", noise="gaussian:0.3")
    assert fingerprint(source.load().train.x) == data["fingerprint"]
    data, _ = described("recordings")
    source = Source.from_version_1(data)
    assert source == Source(data="/home/user/wav", mixed="windows", size=800, rate=800)
    further = {**data, "skipped": ["a.wav"], "label": "none", "size": "48x64", "hop": 3, "seed": 5}
    source = Source.from_version_1(further)
    assert (source.skip_bad, source.label, source.size) == (True, False, (48, 64))
    assert source.seed == 5
    assert Source.from_version_1({**data, "source": "esc50"}).rate is None  # which has one already
    assert Source.from_version_1({}) is None


def test_what_version_1_wrote_of_an_experiment():
    data, shape = described("simsiam")
    source = Source.from_version_1(data, shape)
    assert source == Source.of("digits", subset=256, prepare="rgb")
    assert fingerprint(source.load().train.x) == data["fingerprint"]
    noisy = Source.from_version_1({**data, "noise": 0.5, "part": "all", "samples": 1797, "fold": 2})
    assert noisy == Source.of("digits", noise="gaussian:0.5", part="all", fold=2)


# Results for whole data sets


def test_results_of_batches_are_in_order():
    x = torch.randn(150, 4, generator=torch.Generator().manual_seed(0))
    sizes = []

    def double(batch):
        sizes.append(len(batch))
        return 2 * batch

    assert dcs.data.map_batches(double, x, rows=64).tolist() == (2 * x).tolist()
    assert sizes == [64, 64, 64]  # the last one is filled up
    lengths = torch.tensor([2] * 150)

    def masked(batch, valid):
        assert valid.shape == batch.shape
        assert not batch[~valid].any()
        return batch.sum(1)

    np.testing.assert_allclose(
        dcs.data.map_batches(masked, x, lengths=lengths), x[:, :2].sum(1).numpy(), rtol=1e-6
    )
    assert dcs.data.rows_per_batch(x) == 1024
    assert dcs.data.rows_per_batch(x[:10]) == 64


# In memory


def test_a_float_tensor_is_kept_as_it_is():
    x = torch.rand(5, 3)
    assert load(x).train.x is x
    assert load(x.double()).train.x.dtype == torch.float32
    assert torch.equal(load(x.T).train.x, x.T)
    with_gradient = load(x.clone().requires_grad_()).train.x
    assert not with_gradient.requires_grad
    assert isinstance(load(x, resident=False).train.x, Samples)
    x[3, 1] = torch.nan
    with pytest.raises(DataError, match="1 NaN, infinite or too large values in row 3"):
        load(x)
