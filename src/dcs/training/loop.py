"""The training loop, one for every objective, device and number of processes."""

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Generator, Tensor, nn

from dcs.data import Batches, Samples
from dcs.objectives import SURE, Objective
from dcs.training.config import TrainingConfig
from dcs.training.meters import TrainingWarning, concerns, feature_spread, weight_statistics
from dcs.training.processes import Joint, any_process

_METER_SAMPLES = 512
_ESTIMATE_SAMPLES = 4096

Metrics = dict[str, float]


class Recorder(Protocol):
    """Where a training leaves its traces; `dcs.training.Run` is one."""

    def restore(self) -> dict[str, Any] | None:
        """The state to go on from, if there is one."""
        ...

    def after_step(self, state: Callable[[], dict[str, Any]]) -> bool:
        """Save the state if it is time to; whether to stop."""
        ...

    def after_epoch(self, metrics: Metrics) -> None:
        """Take down the metrics of an epoch."""
        ...

    def stop(self, state: dict[str, Any]) -> None:
        """Save the state, and leave."""
        ...


class Position(NamedTuple):
    """How far a training is."""

    epoch: int = 0
    batch: int = 0  # of the epoch
    loss_sum: float = 0.0  # over the samples of the epoch so far
    gradient_norm: float = math.nan  # of its last step
    best: float = math.inf  # held-out loss
    best_epoch: int = -1
    finished: bool = False


def train(
    model: nn.Module,
    objective: Objective,
    x: Tensor | Samples,
    config: TrainingConfig,
    *,
    pair: Tensor | Samples | None = None,
    recorder: Recorder | None = None,
) -> list[Metrics]:
    """Minimise an objective over a model, in place.

    Args:
        model: Any module whose result has x's shape; with `encode`, its features are watched.
        objective: What is minimised; its own parameters, if it has any, are trained too.
        x: Noisy samples (n, ...).
        config: The settings.
        pair: A second noisy view of the same things, row by row.
        recorder: Keeps checkpoints and metrics, and says when to stop.

    Returns:
        The metrics of each epoch.
    """
    trainer = _Trainer(model, objective, x, config, pair)
    state = recorder.restore() if recorder else None
    if state is not None:
        trainer.load_state(state)
    history = []
    while not trainer.at.finished:
        for batch in trainer.batches.epoch(trainer.order, start=trainer.at.batch):
            trainer.step(batch.x, batch.rows)
            leave = recorder is not None and recorder.after_step(trainer.state)
            if recorder is not None and any_process(leave, trainer.accelerator):
                recorder.stop(trainer.state())
        metrics = trainer.end_epoch()
        history.append(metrics)
        if recorder is not None:
            recorder.after_epoch(metrics)
    trainer.end()
    return history


class _Trainer:
    """Everything that changes during a training, so that it can be saved and restored as one."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        x: Tensor | Samples,
        config: TrainingConfig,
        pair: Tensor | Samples | None,
    ) -> None:
        self.config, self.objective, self.x, self.pair = config, objective, x, pair
        self.accelerator = _accelerator(config)
        device = self.accelerator.device
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        self.network = model.to(device)
        objective.to(device)
        self._estimate_sigma()
        parameters = [*model.parameters(), *objective.parameters()]
        # Without weight decay, AdamW is Adam.
        adam = torch.optim.AdamW(parameters, lr=config.learning_rate, weight_decay=config.weight_decay)
        wrapped, self.optimizer = self.accelerator.prepare(model, adam)
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self.model: nn.Module = torch.compile(wrapped) if config.compile else wrapped  # type: ignore[assignment]
        if self.accelerator.num_processes > 1:
            self.model = Joint(self.model, self.accelerator.process_index, self.accelerator.num_processes)
        self.average = _copy(model) if config.ema is not None else None
        self.best = _copy(model) if config.patience is not None else None

        self.order = Generator().manual_seed(config.seed)
        self.noise = Generator(device).manual_seed(config.seed)
        rows = torch.randperm(x.shape[0], generator=self.order)
        held_out = min(round(config.validation * len(rows)), len(rows) - 1)
        self.batches = Batches(x, config.batch_size, device=device, rows=rows[held_out:])
        self.held_out = None
        if held_out:
            self.held_out = Batches(self.batches.x, config.batch_size, device=device, rows=rows[:held_out])
        watched = rows[:_METER_SAMPLES] if held_out >= 2 else rows[held_out:][:_METER_SAMPLES]
        self.watched = _take(self.batches.x, watched, device)
        self.epoch_order = self.order.get_state()
        self.at = Position(finished=config.max_epochs == 0)
        self.started, self.seen = time.perf_counter(), 0

    def step(self, x: Tensor, rows: Tensor) -> None:
        """One step of Adam."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate()
        self.optimizer.zero_grad()
        with self.accelerator.autocast():
            loss = self.objective(self.model, x, self.noise, self._pair(rows))
        # Gradients are averaged over processes, each of which has only its share of the joint batch's.
        self.accelerator.backward(loss * self.accelerator.num_processes)
        if self.config.clip_norm is not None:
            self.accelerator.clip_grad_norm_(self.parameters, self.config.clip_norm)
        self.optimizer.step()
        if self.average is not None and self.config.ema is not None:
            for name, value in self.network.state_dict().items():
                if value.is_floating_point():
                    self.average[name].lerp_(value, 1 - self.config.ema)
                else:
                    self.average[name].copy_(value)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ValueError(f"the loss became {value} in epoch {self.at.epoch}: use a lower learning_rate")
        self.seen += len(x)
        self.at = self.at._replace(batch=self.at.batch + 1, loss_sum=self.at.loss_sum + value * len(x))
        if self.at.batch == len(self.batches):
            norms = [p.grad.norm() for p in self.parameters if p.grad is not None]
            self.at = self.at._replace(gradient_norm=float(torch.stack(norms).norm()))

    def learning_rate(self) -> float:
        """As the schedule has it at the current step."""
        config, done = self.config, self.at.epoch + self.at.batch / len(self.batches)
        factor = 1.0
        if done < config.warmup_epochs:
            factor = (done + 1 / len(self.batches)) / config.warmup_epochs
        elif config.schedule == "cosine":
            rest = config.max_epochs - config.warmup_epochs
            factor = 0.5 * (1 + math.cos(math.pi * (done - config.warmup_epochs) / max(rest, 1e-9)))
        return config.learning_rate * factor

    def end_epoch(self) -> Metrics:
        """Measure, look whether to stop, and go on to the next epoch."""
        at, config = self.at, self.config
        metrics = {
            "epoch": at.epoch,
            "loss": at.loss_sum / len(self.batches.rows),
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "gradient_norm": at.gradient_norm,
        }
        with _evaluating(self.network):
            if self.held_out is not None:
                metrics["validation_loss"] = self.validate()
            spread = feature_spread(self.network, self.watched)
            statistics = weight_statistics(self.objective, self.watched, self._fixed())
        metrics |= {"feature_spread": spread, **statistics}
        now = time.perf_counter()
        metrics["samples_per_second"] = self.seen / max(now - self.started, 1e-9)
        watched = metrics.get("validation_loss", metrics["loss"])
        stop = False
        if watched < at.best:
            at = at._replace(best=watched, best_epoch=at.epoch)
            self.best = _copy(self.network) if self.best is not None else None
        elif config.patience is not None:
            stop = at.epoch - at.best_epoch >= config.patience
        last = at.epoch + 1 >= config.max_epochs
        if last or stop:
            for concern in concerns(spread, statistics):
                warnings.warn(concern, TrainingWarning, stacklevel=3)
        self.epoch_order = self.order.get_state()
        self.at = at._replace(epoch=at.epoch + 1, batch=0, loss_sum=0.0, finished=last or stop)
        self.started, self.seen = time.perf_counter(), 0
        return metrics

    @torch.no_grad()
    def validate(self) -> float:
        """The objective on the held-out samples, with the same masks every time."""
        assert self.held_out is not None  # noqa: S101
        generator, total = self._fixed(), 0.0
        for batch in self.held_out.epoch():
            with self.accelerator.autocast():
                loss = self.objective(self.network, batch.x, generator, self._pair(batch.rows))
            total += float(loss) * len(batch.x)
        return total / len(self.held_out.rows)

    def end(self) -> None:
        """Leave the weights that are to be kept in the model."""
        keep = self.best if self.best is not None and self.at.best_epoch >= 0 else self.average
        if keep is not None:
            self.network.load_state_dict(keep)

    def state(self) -> dict[str, Any]:
        """All that is needed to go on as if nothing had happened."""
        scaler = self.accelerator.scaler
        return {
            "model": self.network.state_dict(),
            "objective": self.objective.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": scaler.state_dict() if scaler is not None else None,
            "average": self.average,
            "best": self.best,
            "epoch_order": self.epoch_order,
            "noise": self.noise.get_state(),
            "position": self.at._asdict(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.network.load_state_dict(state["model"])
        self.objective.load_state_dict(state["objective"])
        self.optimizer.load_state_dict(state["optimizer"])
        if state["scaler"] is not None and self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(state["scaler"])
        self.average, self.best = state["average"], state["best"]
        self.epoch_order = state["epoch_order"]
        self.order.set_state(state["epoch_order"])
        self.noise.set_state(state["noise"])
        self.at = Position(**state["position"])

    def _pair(self, rows: Tensor) -> Tensor | None:
        return None if self.pair is None else _take(self.pair, rows, self.accelerator.device)

    def _fixed(self) -> Generator:
        """The same random numbers every time, for what is compared between epochs."""
        return Generator(self.accelerator.device).manual_seed(self.config.seed)

    def _estimate_sigma(self) -> None:
        if isinstance(self.objective, SURE) and self.objective.sigma.isnan().all():
            some = torch.arange(min(self.x.shape[0], _ESTIMATE_SAMPLES))
            self.objective.estimate(_take(self.x, some, self.accelerator.device))


def _accelerator(config: TrainingConfig) -> Any:
    """Accelerate's engine; its state is global and is begun anew, so that trainings may follow each other."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state()
    return Accelerator(cpu=config.device == "cpu", mixed_precision=config.precision)


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def _take(x: Tensor | Samples, rows: Tensor, device: torch.device) -> Tensor:
    if isinstance(x, Samples):
        return x.read(rows.tolist()).to(device)
    return x.index_select(0, rows.to(x.device)).to(device)


@contextlib.contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
