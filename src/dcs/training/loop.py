"""The training loop, one for all objectives, devices and numbers of processes."""

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Generator, Tensor, nn
from torch.amp.grad_scaler import GradScaler

from dcs.data import Batch, Samples
from dcs.objectives import Objective
from dcs.training import distributed, meters
from dcs.training.checkpoint import CheckpointWarning, RunError
from dcs.training.config import TrainingConfig
from dcs.training.distributed import Group, Loss
from dcs.training.meters import Metrics, Monitor, TrainingWarning
from dcs.training.optimizer import batch_used, make_optimizer, peak_rate, scheduled_rate
from dcs.training.samples import TrainingSamples

# Limits to the samples that an objective is prepared with.
_PREPARE_SAMPLES, _PREPARE_ENTRIES = 16, 2**20


class Recorder(Protocol):
    """Keep checkpoints and metrics of a training; `dcs.runs.Run` is one.

    Each process has a recorder. Only that of process 0 is asked for a state to restore, and only that one
    should write files.
    """

    def restore(self) -> dict[str, Any] | None:
        """Return the state to continue from, if there is one."""

    def after_step(self, state: Callable[[], dict[str, Any]]) -> bool:
        """Save the state if a checkpoint is due; return whether to stop."""

    def after_epoch(self, metrics: Metrics) -> None:
        """Record the metrics of an epoch."""

    def stop(self, state: dict[str, Any]) -> None:
        """Save the state and raise an exception."""


def train(
    model: nn.Module,
    objective: Objective,
    x: Tensor | Samples,
    config: TrainingConfig,
    *,
    pair: Tensor | Samples | None = None,
    lengths: Tensor | None = None,
    recorder: Recorder | None = None,
    monitor: Monitor | None = None,
) -> list[Metrics]:
    """Minimise an objective over the parameters of a model, in place.

    Under `torchrun`, each process calls it with the same arguments and reads its share of each batch.

    Args:
        model: Module whose output has the shape of x; with `encode`, its features are measured. It is trained
            in the mode, `model.train()` or `model.eval()`, that it is in.
        objective: Objective to minimise; its own parameters, if it has any, are trained too.
        x: Noisy samples (n, ...).
        config: Settings of the training.
        pair: Second noisy view of the same samples, row by row.
        lengths: Entries of each sample's first axis that hold data, (n,); the rest is padding, which is
            ignored.
        recorder: Keeper of checkpoints and metrics, which decides when to stop.
        monitor: Function of the model, in evaluation mode, and the number of the epoch, which returns further
            metrics; called after each epoch in process 0. `dcs.evaluation.KNNMonitor` is one.

    Returns:
        The metrics of each epoch that was run.
    """
    group = distributed.start(config.device)
    # Data may be smaller than a batch; the learning rate of SGD is that of the actual batches.
    config = config.model_copy(update={"batch_size": batch_used(config, x.shape[0])})
    history = []
    # torch's own seed is that of dropout.
    with threaded(config.threads), seeded(config.seed), distributed.explained_errors(group):
        samples = TrainingSamples(x, pair, lengths, config, group, full_batches=objective.full_batches)
        model, objective = model.to(group.device), objective.to(group.device)
        trainer = _Trainer(model, objective, samples, config, group, monitor)
        state = recorder.restore() if recorder is not None and group.is_main else None
        trainer.load_state(group.broadcast(state))
        while not trainer.at.finished:
            for batch in samples.batches.epoch(samples.order, start=trainer.at.batch):
                trainer.step(batch)
                if recorder is not None and group.sum(recorder.after_step(trainer.state)):
                    recorder.stop(trainer.state())
            history.append(trainer.end_epoch())
            if recorder is not None:
                recorder.after_epoch(history[-1])
        trainer.load_kept_weights()
    return history


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's own random state, and restore it afterwards."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def threaded(threads: int | None) -> Iterator[None]:
    """Set torch's number of threads, unless it is None, and restore it afterwards."""
    before = torch.get_num_threads()
    try:
        if threads is not None:
            torch.set_num_threads(threads)
        yield
    finally:
        torch.set_num_threads(before)


def _global_generators(device: torch.device) -> list[Generator]:
    if device.type != "cuda":
        return [torch.default_generator]
    return [torch.default_generator, torch.cuda.default_generators[device.index or 0]]


class _Position(NamedTuple):
    """Progress of a training."""

    epoch: int = 0
    batch: int = 0  # in the epoch
    loss_sum: float = 0.0  # over the samples of the epoch so far
    gradient_norm: float = math.nan  # in the last step of the epoch
    finished: bool = False


@dataclass(eq=False)
class _Trainer:
    """Everything that changes during a training, so that it is saved and restored as one."""

    network: nn.Module
    objective: Objective
    samples: TrainingSamples
    config: TrainingConfig
    group: Group
    monitor: Monitor | None

    def __post_init__(self) -> None:
        network, objective, config, device = self.network, self.objective, self.config, self.group.device
        if config.precision == "fp16" and device.type == "cpu":
            raise ValueError("precision fp16 needs a GPU: use bf16 or no")
        if config.compile and not objective.predicts:
            raise ValueError(
                "compile must be False: self-supervised objectives do not call the whole network"
            )
        most = max(_PREPARE_SAMPLES, _PREPARE_ENTRIES // math.prod(self.samples.x.shape[1:]))
        if wanted := min(objective.wanted_samples(), most):
            objective.prepare(network, *self.samples.spread(wanted))
        self.parameters = [p for p in [*network.parameters(), *objective.parameters()] if p.requires_grad]
        if not self.parameters:
            raise ValueError("model has no parameters to train: give one that has, with requires_grad")
        self.optimizer = make_optimizer(network, objective, config)
        self.scaler = GradScaler(device.type, enabled=config.precision == "fp16")
        if config.sync_batchnorm and self.group.world_size > 1 and device.type == "cuda":
            network = nn.SyncBatchNorm.convert_sync_batchnorm(network)
            nn.SyncBatchNorm.convert_sync_batchnorm(objective)
        called: Any = torch.compile(network) if config.compile else network
        self.loss = self.group.parallel(Loss(called, objective), find_unused=not objective.predicts)
        self.average = None if config.ema is None else meters.copied(self.network.state_dict())
        self.stopping = meters.Stopping(config.patience)
        self.noise = Generator(device).manual_seed(config.seed)
        self.measured = self.samples.measured() if self.group.is_main else None
        self.epoch_order = self.samples.order.get_state()
        self.at = _Position(finished=config.max_epochs == 0)
        self.started, self.seen = time.perf_counter(), 0

    def step(self, batch: Batch) -> None:
        """Make one step of the optimiser."""
        steps, done = len(self.samples.batches), self.at.epoch * len(self.samples.batches) + self.at.batch
        rate = scheduled_rate(self.config, self.at.epoch + self.at.batch / steps, steps)
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = peak_rate(self.config) if parameters.get("fixed") else rate
        if self.group.world_size > 1:
            # Random numbers then differ between processes, and nothing but the step is needed to resume.
            seed = self.group.seed(self.config.seed, done)
            for generator in (self.noise, *_global_generators(self.group.device)):
                generator.manual_seed(seed)
        self.optimizer.zero_grad()
        (x, pair, valid), share = self.samples.inputs(batch), len(batch.x)
        with self._autocast():
            loss = self.loss(x, self.noise, pair, valid=valid)
        total = self.group.sum(float(loss.detach()) * share)
        self._check_finite("loss", total)
        if share * self.group.world_size != batch.joint_size:
            # The average over processes must be the mean over all samples.
            loss = loss * (share * self.group.world_size / batch.joint_size)
        self.scaler.scale(loss).backward()
        if self.config.clip_norm is not None or self.at.batch + 1 == steps:
            self._clip_gradient()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.average is not None:
            meters.update_average(self.average, self.network, self.config.ema or 0, done)
        self.seen += batch.joint_size
        self.at = self.at._replace(batch=self.at.batch + 1, loss_sum=self.at.loss_sum + total)

    def _clip_gradient(self) -> None:
        self.scaler.unscale_(self.optimizer)
        length = float(nn.utils.clip_grad_norm_(self.parameters, self.config.clip_norm or math.inf))
        if not self.scaler.is_enabled():  # a scaler skips a gradient that is not finite, and lowers the scale
            self._check_finite("gradient", length)
        self.at = self.at._replace(gradient_norm=length)

    def end_epoch(self) -> Metrics:
        """Measure, decide whether to stop, and advance to the next epoch."""
        at, config = self.at, self.config
        loss = at.loss_sum / self.samples.trained
        metrics = {
            "epoch": at.epoch,
            "loss": loss,
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "gradient_norm": at.gradient_norm,
        }
        losses = torch.tensor([loss])
        # All processes get the running statistics of process 0; parameters are equal already.
        average = self.average or {}
        averaged = [average[name] for name, _ in self.network.named_buffers() if name in average]
        self.group.broadcast_tensors([*self.network.buffers(), *self.objective.buffers(), *averaged])
        with meters.evaluating(self.network, self.average, self.objective):
            if len(self.samples.held_out):
                metrics["validation_loss"], losses = self._validate()
            if self.group.is_main:
                if self.monitor is not None:
                    metrics |= self.monitor(self.network, at.epoch)
                metrics |= self._measure()
        metrics["samples_per_second"] = self.seen / max(time.perf_counter() - self.started, 1e-9)
        metrics = self.group.broadcast(metrics)
        stop = self.stopping.after_epoch(
            at.epoch, losses, lambda: (average or self.network.state_dict(), self.objective.state_dict())
        )
        if config.patience is not None:
            metrics["kept_epoch"] = self.stopping.kept_epoch
        finished = stop or at.epoch + 1 >= config.max_epochs
        if finished and self.group.is_main:
            for concern in self._concerns(metrics):
                warnings.warn(concern, TrainingWarning, stacklevel=3)
        self.epoch_order = self.samples.order.get_state()
        self.at = at._replace(epoch=at.epoch + 1, batch=0, loss_sum=0.0, finished=finished)
        self.started, self.seen = time.perf_counter(), 0
        return metrics

    @torch.no_grad()
    def _validate(self) -> tuple[float, Tensor]:
        """Compute the mean held-out loss, and that of each full batch, with the same masks in every epoch."""
        generator = Generator(self.group.device).manual_seed(self.group.seed(self.config.seed))
        losses = {}
        for number, (x, pair, valid) in self.samples.held_out_batches():
            with self._autocast():
                losses[number] = float(self.objective(self.network, x, generator, pair, valid=valid))
            self._check_finite("held-out loss", losses[number])
        return self.samples.held_out_mean(self.group.gather(losses))

    def _measure(self) -> Metrics:
        """Measure a batch with the network as it is, in process 0."""
        assert self.measured is not None  # noqa: S101  (as it is in process 0)
        x, pair, valid = self.measured
        spread = meters.feature_spread(self.network, self.objective.inputs(x))
        generator = Generator(self.group.device).manual_seed(self.config.seed)
        statistics = self.objective.statistics(self.network, x, generator, pair, valid)
        return {"feature_spread": spread, **statistics}

    def _concerns(self, metrics: Metrics) -> list[str]:
        """Warnings about the weights that are kept."""
        if self.stopping.weights is not None and self.stopping.kept_epoch < self.at.epoch:
            self.load_kept_weights()  # which are not the ones that were measured
            with meters.evaluating(self.network, None, self.objective):
                metrics = self._measure()
        found = meters.concerns(metrics["feature_spread"], metrics)
        most, steps = self.config.max_epochs, (self.at.epoch + 1) * len(self.samples.batches)
        if most >= 50 and self.stopping.best_epoch >= 0.9 * most and steps < meters.FEW_STEPS:
            found.append(
                f"training ended after {steps} steps while the loss was still falling: with little data an "
                f"epoch is few steps; raise max_epochs (--epochs) until there are some thousands"
            )
        return found

    def load_kept_weights(self) -> None:
        """Load the weights that the training keeps into the model and the objective."""
        if self.stopping.weights is not None:
            network, objective = self.stopping.weights
            self.network.load_state_dict(network)
            self.objective.load_state_dict(objective)
        elif self.average is not None:
            self.network.load_state_dict(self.average)

    def state(self) -> dict[str, Any]:
        """Return everything needed to continue exactly."""
        return {
            "model": self.network.state_dict(),
            "objective": self.objective.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "average": self.average,
            "stopping": self.stopping.state(),
            "epoch_order": self.epoch_order,
            "noise": self.noise.get_state(),
            "device": self.group.device.type,
            "global": [generator.get_state() for generator in _global_generators(self.group.device)],
            "processes": self.group.world_size,
            "position": self.at._asdict(),
        }

    def load_state(self, state: dict[str, Any] | None) -> None:
        """Continue from a state, if there is one."""
        if state is None:
            return
        before = state.get("processes", 1)
        if self.group.is_main and before != self.group.world_size:
            warnings.warn(
                f"the checkpoint was written by {before} processes, there are now {self.group.world_size}: "
                f"the result will not be bit-identical",
                CheckpointWarning,
                stacklevel=3,
            )
        device = self.group.device
        try:
            if state["device"] != device.type:
                raise ValueError(
                    f"the checkpoint is of a training on {state['device']}, this one on {device.type}, with "
                    f"other random numbers: continue on {state['device']}, or start over"
                )
            self.network.load_state_dict(state["model"])
            self.objective.load_state_dict(state["objective"])
            self.optimizer.load_state_dict(state["optimizer"])
            if state["scaler"]:
                self.scaler.load_state_dict(state["scaler"])
            if self.average is not None:
                self.average = meters.copied(state["average"], device)
            self.stopping.load_state(state["stopping"], device)
            self.epoch_order = state["epoch_order"]
            self.samples.order.set_state(state["epoch_order"])
            self.noise.set_state(state["noise"])
            for generator, its_state in zip(_global_generators(device), state["global"], strict=True):
                generator.set_state(its_state)
            self.at = _Position(**state["position"])
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError) as error:
            reason = " ".join(str(error).split())[:300]
            raise RunError(
                f"the checkpoint does not fit this training ({type(error).__name__}: {reason}): start over"
            ) from error

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.config.precision)
        return contextlib.nullcontext() if kind is None else torch.autocast(self.group.device.type, kind)

    def _check_finite(self, what: str, value: float) -> None:
        if not math.isfinite(value):
            raise ValueError(
                f"the {what} became {value} in epoch {self.at.epoch}: use a lower learning_rate, and check "
                f"that the data has no extreme values"
            )
