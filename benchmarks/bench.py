"""The speed that dcs-learn promises, as ratios of medians measured side by side in one run (`make bench`)."""

import argparse
import gzip
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetRegressor
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from dcs import DenoisingEncoder, evaluation, models
from dcs import functional as F
from dcs.cli import keep_freed_memory
from dcs.data import Batches, LogMel
from dcs.data._idx import read_idx_images
from dcs.evaluation._linear import Linear, fit_lbfgs
from dcs.masking import AmplitudeNeighbors, BlindSpot
from dcs.objectives import MSE, DenoisingCosine, Objective
from dcs.training import TrainingConfig, TrainingWarning, make_objective, read_config, train
from pictures import pictures
from self_supervised import augmentation, self_supervised
from timing import Ratio, at_most, faster, side_by_side, timed

Array = NDArray[Any]
WIDTHS = (784, 500, 500, 2000, 10, 2000, 500, 500, 784)


def training_step(objective: Objective, x: Tensor) -> Callable[[], None]:
    """One step of Adam on the paper's autoencoder."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for index, (width, next_width) in enumerate(pairwise(WIDTHS)):
        layers += [nn.Linear(width, next_width), nn.Identity() if index in (3, 7) else nn.ReLU()]
    model = nn.Sequential(nn.Flatten(), *layers, nn.Unflatten(1, x.shape[1:]))
    optimizer = torch.optim.Adam(model.parameters())
    generator = torch.Generator().manual_seed(0)

    def step() -> None:
        optimizer.zero_grad()
        objective(model, x, generator).backward()
        optimizer.step()

    return step


def steps() -> Iterable[Ratio]:
    """A dCS training step against an MSE training step."""
    x = torch.rand(256, 1, 28, 28)
    for rho in (0.1, 0.3):
        ours = training_step(DenoisingCosine(BlindSpot(rho=rho)), x)
        reference = training_step(MSE(), x)
        times = side_by_side(lambda n, f=ours: timed(f, n), lambda n, f=reference: timed(f, n), 4, 30)
        what = f"dCS step (rho = {rho}) / MSE step, 784-500-500-2000-10 and back, batch 256"
        yield at_most(what, times, 1.05) if rho == 0.1 else Ratio(what, *times, times[0] / times[1])


def weights() -> Iterable[Ratio]:
    """The exact k against Monte Carlo."""
    snr, dim = torch.rand(256) + 0.2, torch.randint(60, 100, (256,))
    times = side_by_side(
        lambda n: timed(lambda: F.expected_cosine(snr, dim), n),
        lambda n: timed(lambda: F.expected_cosine(snr, dim, method="monte_carlo", samples=1000), n),
        10,
        10,
    )
    yield faster("k exact / Monte Carlo with 1,000 draws, 256 samples", times, 10)


def maskers(peer: str) -> Iterable[Ratio]:
    """BlindSpot against CAREamics, each in a process of its own."""
    workers = [
        subprocess.Popen(
            [python, "benchmarks/mask_worker.py", library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for python, library in ((sys.executable, "dcs"), (peer, "careamics"))
    ]

    def asking(worker: subprocess.Popen[str], shape: tuple[int, ...]) -> Callable[[int], list[float]]:
        def ask(count: int) -> list[float]:
            assert worker.stdin is not None  # noqa: S101
            assert worker.stdout is not None  # noqa: S101
            worker.stdin.write(json.dumps({"shape": shape, "count": count}) + "\n")
            worker.stdin.flush()
            return json.loads(worker.stdout.readline())

        return ask

    for shape, count in (((256, 1, 28, 28), 50), ((16, 1, 256, 256), 20)):
        times = side_by_side(*(asking(worker, shape) for worker in workers), count, rounds=20)
        size = "x".join(map(str, shape))
        yield faster(f"BlindSpot(rho=0.1) / CAREamics uniform_manipulate, {size}", times, 4)
    for worker in workers:
        worker.communicate()


def against_careamics(peer: str) -> Iterable[Ratio]:
    """Training steps of our U-Net against CAREamics' of equal size, in one process of its environment."""
    path = os.pathsep.join(["src", "studies"])
    command = [peer, "benchmarks/careamics_unet.py"]
    result = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True, check=False
    )
    found = json.loads(result.stdout)
    pixels = 16 * 64 * 64
    reference = pixels / found["careamics"]["pixels_per_second_float32"]
    for kind in dict.fromkeys([found["precision"], "float32"]):
        ours = pixels / found["resunet"][f"pixels_per_second_{kind}"]
        ratio = found["ratio"] if kind == found["precision"] else found["ratio_float32"]
        what = f"training on windows: resunet in {kind} / CAREamics' U-Net in float32, 16 x 64 x 64"
        yield Ratio(what, ours, reference, ratio, ">= 1.3", ratio >= 1.3)


def imports() -> Iterable[Ratio]:
    """What `import dcs`, up to its objectives and data, adds to `import torch`."""

    def importing(code: str) -> Callable[[int], list[float]]:
        command = [sys.executable, "-c", code]
        return lambda n: timed(lambda: subprocess.run(command, check=True), n)

    ours = importing("import torch, dcs; dcs.data, dcs.functional, dcs.masking, dcs.noise, dcs.objectives")
    yield at_most(
        "import torch and dcs up to its objectives / import torch",
        side_by_side(ours, importing("import torch"), 1, 9),
        1.15,
    )


class PerSample(TorchDataset[Tensor]):
    """Digits as most code has them: bytes in memory, and a transform for each sample."""

    def __init__(self, images: Tensor) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Tensor:
        return self.images[index].float().div(255)


def reading(folder: Path) -> Iterable[Ratio]:
    """Files of MNIST's size to training tensors, and tensors to batches.

    The images are made here, smooth blobs on black: random bytes would not pack, as digits do.
    """
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(60000, 1, 7, 7, generator=generator)
    images = functional.interpolate(coarse, (28, 28), mode="bilinear").squeeze(1)
    images = images.sub_(0.6).clamp_(min=0).mul_(600).clamp_(max=255).byte()
    path = folder / "train-images-idx3-ubyte.gz"
    header = struct.pack(">HBB3I", 0, 8, 3, *images.shape)
    path.write_bytes(gzip.compress(header + images.numpy().tobytes()))

    def by_numpy() -> object:
        with gzip.open(path) as file:
            return np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)

    times = side_by_side(
        lambda n: timed(lambda: read_idx_images(path), n), lambda n: timed(by_numpy, n), 1, 15
    )
    what = "60,000 gzipped images to a float32 tensor / gzip and NumPy to bytes"
    yield at_most(f"{what}, {path.stat().st_size / 1e6:.0f} MB", times, 1.2)

    batches = Batches(images.float().div_(255), 256)
    loader = DataLoader(PerSample(images), 256, shuffle=True)

    def epoch() -> None:
        for _ in batches.epoch(generator):
            pass

    def epoch_of_loader() -> None:
        for _ in loader:
            pass

    times = side_by_side(lambda n: timed(epoch, n), lambda n: timed(epoch_of_loader, n), 1, 5)
    yield faster("an epoch of batches of 256 / a DataLoader that transforms each sample", times, 20)


class Clock:
    """Notes when each epoch of a training ends."""

    def __init__(self) -> None:
        self.times = [time.perf_counter()]

    def restore(self) -> None:
        """There is nothing to go on from."""

    def after_step(self, _: object) -> bool:
        """Go on."""
        return False

    def after_epoch(self, _: object) -> None:
        """Note the time."""
        self.times.append(time.perf_counter())

    def stop(self, _: object) -> None:
        """Never called."""


def trainings() -> Iterable[Ratio]:
    """An epoch of the loop, all that is measured in it included, against bare steps on ready-made batches."""
    x = torch.rand(256 * 60, 28, 28, generator=torch.Generator().manual_seed(0))
    for name in ("mse", "cosine", "n2v", "dae", "dcs"):
        config = read_config({"objective": name, "max_epochs": 3, "validation": 0.0, "device": "cpu"})

        def loop(_: int, config: TrainingConfig = config) -> list[float]:
            clock = Clock()
            train(models.build("mlp", (28, 28)), make_objective(config), x, config, recorder=clock)
            return [end - start for start, end in pairwise(clock.times[1:])]  # the first one sets things up

        bare = bare_epoch(models.build("mlp", (28, 28)), x)
        times = side_by_side(loop, lambda _, bare=bare: timed(bare, 2), 1, 4)
        yield at_most(f"an epoch with {name} / bare steps, 60 x 256", times, 1.08)
    # The loop uses Adam in one kernel, which is not what torch does by default on a processor.
    bare = bare_epoch(models.build("mlp", (28, 28)), x, fused=True)
    times = side_by_side(loop, lambda _, bare=bare: timed(bare, 2), 1, 4)
    yield Ratio(f"an epoch with {name} / bare steps with fused Adam, 60 x 256", *times, times[0] / times[1])


def bare_epoch(network: nn.Module, x: Tensor, fused: bool | None = None) -> Callable[[], None]:
    """Forward, backward and Adam, and nothing else."""
    optimizer = torch.optim.Adam(network.parameters(), fused=fused)
    batches = list(x.split(256))

    def epoch() -> None:
        for batch in batches:
            optimizer.zero_grad()
            functional.mse_loss(network(batch), batch).backward()
            optimizer.step()

    return epoch


def transforms() -> Iterable[Ratio]:
    """`transform` against the encoder's bare forward pass."""
    x = np.random.default_rng(0).random((10240, 28, 28), dtype=np.float32)
    encoder = DenoisingEncoder(max_epochs=0, random_state=0).fit(x)

    def forward() -> None:
        with torch.inference_mode():
            for batch in torch.from_numpy(x).split(1024):
                encoder.network_.encode(batch).numpy()

    times = side_by_side(lambda n: timed(lambda: encoder.transform(x), n), lambda n: timed(forward, n), 1, 10)
    yield at_most("transform / a bare forward pass, 10,240 images", times, 1.1)


def protocols() -> Iterable[Ratio]:
    """The linear protocol against scikit-learn, and what the clustering protocol adds to UMAP and mixture."""
    random = np.random.default_rng(0)
    y = random.integers(10, size=60_000)
    x = random.normal(size=(10, 10))[y] * 1.2 + random.normal(size=(60_000, 10)) @ random.normal(
        size=(10, 10)
    )
    x = x.astype(np.float32)

    def by_scikit_learn() -> LogisticRegression:
        return LogisticRegression(max_iter=1000).fit(StandardScaler().fit_transform(x), y)

    def loss_of(weight: Array, bias: Array) -> float:
        z = torch.from_numpy(StandardScaler().fit_transform(x.astype(np.float64)))
        logits = z @ torch.from_numpy(weight).double() + torch.from_numpy(bias).double()
        penalty = float((weight**2).sum()) / (2 * len(x))
        return float(functional.cross_entropy(logits, torch.from_numpy(y))) + penalty

    def ours() -> Linear:
        return fit_lbfgs(torch.from_numpy(x), torch.from_numpy(y), 10, inverse_penalty=1.0, max_iter=1000)

    found, theirs = ours(), by_scikit_learn()
    excess = loss_of(found.weight.numpy(), found.bias.numpy()) - loss_of(theirs.coef_.T, theirs.intercept_)
    if excess > 1e-4:
        raise SystemExit(f"the linear protocol ends {excess:.2g} above scikit-learn's loss")
    times = side_by_side(
        lambda n: timed(lambda: evaluation.linear((x, y), (x, y)), n),
        lambda n: timed(by_scikit_learn, n),
        1,
        5,
    )
    yield faster("the linear protocol, 60,000 x 10 / LogisticRegression", times, 3)

    evaluation.clustering((x[:5000], y[:5000]))  # UMAP compiles itself
    results = [evaluation.clustering((x[:5000], y[:5000]), seed=seed) for seed in range(3)]
    inner = [result.metrics["umap_seconds"] + result.metrics["mixture_seconds"] for result in results]
    seconds = statistics.median(result.seconds for result in results), statistics.median(inner)
    yield at_most("the clustering protocol, 5,000 x 10 / its UMAP and mixture", seconds, 1.05)


def against_skorch() -> Iterable[Ratio]:
    """An epoch of the loop against skorch: same network, data and batch size, mean squared error."""
    for hidden, n, target in (((500, 500, 2000), 256 * 20, 1.0), ((32,), 256 * 40, 2.0)):
        size = 784 if len(hidden) > 1 else 64
        x = np.random.default_rng(0).random((n, size), dtype=np.float32)
        config = read_config({"objective": "mse", "max_epochs": 3, "validation": 0.0, "device": "cpu"})
        objective = make_objective(config)
        net = NeuralNetRegressor(
            models.build("mlp", (size,), hidden=hidden),
            optimizer=torch.optim.Adam,
            lr=1e-3,
            batch_size=256,
            max_epochs=3,
            train_split=None,
            iterator_train__shuffle=True,
            verbose=0,
        )
        network = models.build("mlp", (size,), hidden=hidden)
        times = side_by_side(
            lambda n, network=network, objective=objective, config=config, x=x: timed(
                lambda: train(network, objective, torch.from_numpy(x), config), n
            ),
            lambda n, net=net, x=x: timed(lambda: net.fit(x, x), n),
            1,
            5,
        )
        widths = "-".join(map(str, (size, *hidden, 10)))
        yield faster(f"three epochs, {widths} and back / skorch", times, target)


def spectrograms() -> Iterable[Ratio]:
    """Log-mel spectrograms of 64 clips of 5 s at once against a loop over librosa."""
    import librosa

    clips = 0.1 * torch.randn(64, 220_500, generator=torch.Generator().manual_seed(0))
    mel, waves = LogMel(44_100), clips.numpy()

    def by_librosa() -> None:
        for wave in waves:
            power = librosa.feature.melspectrogram(
                y=wave, sr=44_100, n_fft=1000, hop_length=500, center=False, n_mels=60
            )
            librosa.power_to_db(power, top_db=80)

    times = side_by_side(
        lambda n: timed(lambda: mel.decibels(clips), n), lambda n: timed(by_librosa, n), 1, 10
    )
    yield faster("log-mel of 64 clips, 440 x 60 / a loop over librosa", times, 2)


def sound_steps() -> Iterable[Ratio]:
    """What masking and the loss take of a training step of Expt3's transformer."""
    x = torch.randn(64, 440, 60, generator=torch.Generator().manual_seed(0))
    objective = DenoisingCosine(AmplitudeNeighbors(axis=-2))
    network = models.build("vit", (440, 60), 192)
    optimizer = torch.optim.Adam(network.parameters())
    prediction, generator = torch.randn(x.shape).requires_grad_(), torch.Generator().manual_seed(0)

    def step() -> None:
        optimizer.zero_grad()
        objective(network, x, generator).backward()
        optimizer.step()

    def without_network() -> None:
        prediction.grad = None
        objective(lambda _: prediction, x, generator).backward()

    times = side_by_side(lambda n: timed(without_network, 4 * n), lambda n: timed(step, n), count=1, rounds=5)
    yield at_most("masking and dCS loss / a step of the ViT autoencoder, 64 x 440 x 60", times, 0.03)


def main() -> None:
    """Print the table, and each line of it as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", required=True, help="the Python of an environment with CAREamics")
    parser.add_argument("--only", help="groups to measure, such as steps,maskers; all without it")
    arguments = parser.parse_args()
    keep_freed_memory()  # as the command does
    warnings.simplefilter("ignore", TrainingWarning)  # nothing can be learned from random numbers
    table = Table(title=f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    for column in ("what", "ours, ms", "reference, ms", "ratio", "target", "holds"):
        table.add_column(column, justify="left" if column == "what" else "right")
    with tempfile.TemporaryDirectory() as folder:
        groups: dict[str, Callable[[], Iterable[Ratio]]] = {
            "steps": steps,
            "weights": weights,
            "maskers": lambda: maskers(arguments.peer),
            "imports": imports,
            "reading": lambda: reading(Path(folder)),
            "trainings": trainings,
            "transforms": transforms,
            "skorch": against_skorch,
            "protocols": protocols,
            "spectrograms": spectrograms,
            "sound": sound_steps,
            "self-supervised": self_supervised,
            "augmentation": augmentation,
            "pictures": pictures,
            "careamics": lambda: against_careamics(arguments.peer),
        }
        chosen = arguments.only.split(",") if arguments.only else list(groups)
        if unknown := set(chosen) - set(groups):
            parser.error(f"--only: no group {', '.join(sorted(unknown))}; there are {', '.join(groups)}")
        for name in chosen:
            for row in groups[name]():
                holds = {True: "yes", False: "NO", None: ""}[row.holds]
                milliseconds = f"{1000 * row.ours:.3f}", f"{1000 * row.reference:.3f}"
                table.add_row(row.what, *milliseconds, f"{row.ratio:.2f}", row.target, holds)
                print(
                    f"{name}: {row.what}: {row.ratio:.2f} {row.target} {holds}", file=sys.stderr, flush=True
                )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
