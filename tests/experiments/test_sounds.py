"""ESC-50 as spectrograms, on files laid out like it."""

import numpy as np
import pytest
import torch

from dcs.data import LogMel, load
from dcs.experiments._sounds import load_sounds
from tests.official_files import write_esc50

CLIPS = np.random.default_rng(0).integers(-9000, 9000, (100, 4000)).astype(np.int16)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_esc50(folder / "ESC-50-master", CLIPS)
    return folder


@pytest.mark.parametrize("fold", [1, 5])
def test_each_fold_is_standardised_by_the_others(root, fold):
    spectrograms, mel = load_sounds(fold, root)
    waves = load("esc50", root=root, fold=fold)
    order = {name: row for row, name in enumerate(spectrograms.train.names)}
    rows = torch.tensor([order[name] for name in waves.train.names])
    assert mel.mean == pytest.approx(LogMel(44_100).fit(waves.train.x).mean, rel=1e-6)
    assert len(spectrograms.test) == 20
    torch.testing.assert_close(spectrograms.train.x[rows], mel(waves.train.x), rtol=0, atol=1e-4)
    assert torch.equal(spectrograms.train.y[rows], waves.train.y)
    assert {int(name[0]) for name in spectrograms.test.names} == {fold}
    assert spectrograms.classes == waves.classes
    assert float(spectrograms.train.x.mean()) == pytest.approx(0, abs=1e-4)
    assert float(spectrograms.train.x.std()) == pytest.approx(1, abs=1e-2)


def test_what_is_wrong_is_said(root):
    with pytest.raises(ValueError, match="fold must be one of 1, 2, 3, 4, 5, got '6'"):
        load_sounds(6, root)
    other = load_sounds(5, root, LogMel(44_100, mels=20, standardise="none"))[0]
    assert other.shape == (7, 20)
