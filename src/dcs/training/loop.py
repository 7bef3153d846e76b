"""The training loop, one for every objective, device and number of processes."""

import contextlib
import math
import operator
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Generator, Tensor, nn
from torch.amp.grad_scaler import GradScaler

from dcs.data import Batches, Samples, check_lengths, valid_entries
from dcs.objectives import Objective, SelfSupervised
from dcs.training.batchnorm import synchronise
from dcs.training.config import TrainingConfig
from dcs.training.meters import (
    TrainingWarning,
    concerns,
    feature_spread,
    projection_spread,
    still_falling,
    weight_statistics,
)
from dcs.training.monitor import Metrics, Monitor
from dcs.training.optimizer import batch_used, held_out_samples, make_optimizer, peak_rate
from dcs.training.processes import (
    Joint,
    agree,
    agree_buffers,
    any_process,
    average_gradients,
    from_main,
    together,
)
from dcs.training.run import RunError
from dcs.training.stopping import PARTS, Stopping, Weights, copied

_METER_SAMPLES = 512
# What an objective is shown beforehand: as many samples as it wants, but no more than these allow.
_PREPARE_SAMPLES, _PREPARE_ENTRIES = 16, 2**20


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
    finished: bool = False


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
    """Minimise an objective over a model, in place.

    Args:
        model: Any module whose result has x's shape; with `encode`, its features are watched. It is trained
            in the mode, `model.train()` or not, in which it is.
        objective: What is minimised; its own parameters, if it has any, are trained too.
        x: Noisy samples (n, ...).
        config: The settings.
        pair: A second noisy view of the same things, row by row.
        lengths: (n,): how many entries of each sample's first axis hold data; the rest is padding, which
            never counts.
        recorder: Keeps checkpoints and metrics, and says when to stop.
        monitor: Called after each epoch with the model, in evaluation mode, and the epoch's number; what it
            returns goes into the metrics. `KNNMonitor` is one.

    Returns:
        The metrics of each epoch that was run.
    """
    if pair is not None and tuple(pair.shape) != tuple(x.shape):
        raise ValueError(f"pair must have the shape of x, {tuple(x.shape)}, got {tuple(pair.shape)}")
    if lengths is not None:
        check_lengths(lengths, x.shape)
    history = []
    with _engine(config) as accelerator, together(accelerator):
        trainer = _Trainer(model, objective, x, config, pair, lengths, accelerator, monitor)
        state = recorder.restore() if recorder is not None and accelerator.is_main_process else None
        state = from_main(state, accelerator)
        with _fitting():
            trainer.load_state(state)
        while not trainer.at.finished:
            for batch in trainer.batches.epoch(trainer.order, start=trainer.at.batch):
                trainer.step(batch.x, batch.rows)
                leave = recorder is not None and recorder.after_step(trainer.state)
                if recorder is not None and any_process(leave, accelerator):
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
        lengths: Tensor | None,
        accelerator: Any,
        monitor: Monitor | None,
    ) -> None:
        held_out = held_out_samples(config, x.shape[0])
        # Data may be smaller than a batch; SGD's rate is that of the batches there are.
        config = config.model_copy(update={"batch_size": batch_used(config, x.shape[0])})
        self.config, self.objective, self.pair, self.lengths = config, objective, pair, lengths
        self.monitor = monitor
        self.accelerator, device = accelerator, accelerator.device
        self.network = model.to(device)
        objective.to(device)
        if accelerator.num_processes > 1 and config.sync_batchnorm:
            synchronise(model, device)
        self.shape = tuple(x.shape[1:])
        most = max(_PREPARE_SAMPLES, _PREPARE_ENTRIES // math.prod(self.shape))
        wanted = min(objective.wanted_samples(), most)
        if wanted:
            # Spread over all, for data is often sorted by class.
            some = torch.linspace(0, x.shape[0] - 1, min(x.shape[0], wanted), dtype=torch.float64).long()
            objective.prepare(model, _take(x, some, device), **self._valid(some))
        agree(objective, accelerator)
        parameters = [*model.parameters(), *objective.parameters()]
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        if not self.parameters:
            raise ValueError("model has no parameters to train: give one that has, with requires_grad")
        if config.compile and isinstance(objective, SelfSupervised):
            raise ValueError("compile must be left out: of objectives with views it reaches no backbone")
        self.optimizer = make_optimizer(model, objective, config)
        # Accelerate does not prepare these: it would change the model's `forward`, turn autocast on where an
        # objective turned it off, and look for packages in every step.
        self.scaler = GradScaler(device.type, enabled=config.precision == "fp16")
        self.model: nn.Module = torch.compile(model) if config.compile else model  # type: ignore[assignment]
        if accelerator.num_processes > 1:
            self.model = Joint(self.model, accelerator)
        self.average = copied(model.state_dict()) if config.ema is not None else None
        self.stopping = Stopping(config.patience)

        self.order = Generator().manual_seed(config.seed)
        self.noise = Generator(device).manual_seed(config.seed)
        rows = torch.randperm(x.shape[0], generator=self.order)
        self.batches = Batches(
            x, config.batch_size, device=device, rows=rows[held_out:], drop_last=objective.full_batches
        )
        self.trained = min(len(self.batches.rows), len(self.batches) * self.batches.batch_size)  # an epoch
        self.held_out = None
        if held_out:
            size = config.batch_size
            if config.patience is not None and not objective.full_batches:
                size = min(size, -(-held_out // PARTS))  # for `Stopping`, which compares their losses
            self.held_out = Batches(self.batches.x, size, device=device, rows=rows[:held_out])
        watched = rows[:_METER_SAMPLES] if held_out >= 2 else rows[held_out:][:_METER_SAMPLES]
        self.watched, self.watched_pair = _take(self.batches.x, watched, device), self._pair(watched)
        self.watched_valid = self._valid(watched).get("valid")
        self.epoch_order = self.order.get_state()
        self.at = Position(finished=config.max_epochs == 0)
        self.started, self.seen = time.perf_counter(), 0

    def step(self, x: Tensor, rows: Tensor) -> None:
        """One step of the optimiser."""
        for group in self.optimizer.param_groups:
            group["lr"] = peak_rate(self.config) if group.get("fixed") else self.learning_rate()
        self.optimizer.zero_grad()
        with self.accelerator.autocast():
            loss = self.objective(self.model, x, self.noise, self._pair(rows), **self._valid(rows))
        value = self._finite("loss", loss)
        self.scaler.scale(loss).backward()
        average_gradients(self.parameters, self.accelerator)
        batch = self.at.batch + 1
        if self.config.clip_norm is not None or batch == len(self.batches):
            self.scaler.unscale_(self.optimizer)
            length = nn.utils.clip_grad_norm_(self.parameters, self.config.clip_norm or math.inf)
            # A scaler leaves out a gradient that is not finite, and lowers the scale.
            norm = float(length) if self.scaler.is_enabled() else self._finite("gradient", length)
            self.at = self.at._replace(gradient_norm=norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.average is not None and self.config.ema is not None:
            # At first over fewer steps, or the weights that training began with would count for long.
            done = self.at.epoch * len(self.batches) + self.at.batch
            decay = min(self.config.ema, (1 + done) / (10 + done))
            for name, weights in self.network.state_dict().items():
                if weights.is_floating_point():
                    self.average[name].lerp_(weights, 1 - decay)
                else:
                    self.average[name].copy_(weights)
        self.seen += len(x)
        self.at = self.at._replace(batch=batch, loss_sum=self.at.loss_sum + value * len(x))

    def learning_rate(self) -> float:
        """As the schedule has it at the current step."""
        config, done = self.config, self.at.epoch + self.at.batch / len(self.batches)
        factor = 1.0
        if done < config.warmup_epochs:
            factor = min(1.0, (done + 1 / len(self.batches)) / config.warmup_epochs)
        elif config.schedule == "cosine":
            rest = config.max_epochs - config.warmup_epochs
            factor = 0.5 * (1 + math.cos(math.pi * (done - config.warmup_epochs) / max(rest, 1e-9)))
        return peak_rate(config) * factor

    def end_epoch(self) -> Metrics:
        """Measure, look whether to stop, and go on to the next epoch."""
        at, config = self.at, self.config
        metrics = {
            "epoch": at.epoch,
            "loss": at.loss_sum / self.trained,
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "gradient_norm": at.gradient_norm,
        }
        agree_buffers([self.network, self.objective], self.accelerator)
        with _as_kept(self.network, self.average, self.objective):
            losses = torch.tensor([metrics["loss"]])
            if self.held_out is not None:
                losses, metrics["validation_loss"] = self.validate()
            spread = feature_spread(self.network, self.objective.inputs(self.watched))
            statistics = projection_spread(self.objective, self.network, self.watched)
            if self.monitor is not None and self.accelerator.is_main_process:
                metrics |= self.monitor(self.network, at.epoch)
        statistics |= weight_statistics(
            self.objective, self.watched, self._fixed(), self.watched_pair, self.watched_valid
        )
        metrics |= {"feature_spread": spread, **statistics}
        now = time.perf_counter()
        metrics["samples_per_second"] = self.seen / max(now - self.started, 1e-9)
        losses = from_main(losses, self.accelerator)
        stop = self.stopping.after_epoch(
            at.epoch, losses, lambda: (self.average or self.network.state_dict(), self.objective.state_dict())
        )
        if config.patience is not None:
            metrics["kept_epoch"] = self.stopping.kept_epoch
        last = at.epoch + 1 >= config.max_epochs
        if (last or stop) and self.accelerator.is_main_process:
            if self.stopping.weights is not None and self.stopping.kept_epoch < at.epoch:
                # Other weights are kept than were measured.
                self.end()
                with _as_kept(self.network, None, self.objective):
                    spread = feature_spread(self.network, self.objective.inputs(self.watched))
                    statistics |= projection_spread(self.objective, self.network, self.watched)
            found = concerns(spread, statistics)
            steps = (at.epoch + 1) * len(self.batches)
            if config.max_epochs >= 50 and self.stopping.best_epoch >= 0.9 * config.max_epochs:
                found += still_falling(steps)
            for concern in found:
                warnings.warn(concern, TrainingWarning, stacklevel=3)
        self.epoch_order = self.order.get_state()
        self.at = at._replace(epoch=at.epoch + 1, batch=0, loss_sum=0.0, finished=last or stop)
        self.started, self.seen = time.perf_counter(), 0
        return metrics

    @torch.no_grad()
    def validate(self) -> tuple[Tensor, float]:
        """The objective on each batch of held-out samples, with the same masks every time, and its mean."""
        assert self.held_out is not None  # noqa: S101
        generator, losses, sizes = self._fixed(), [], []
        for batch in self.held_out.epoch():
            with self.accelerator.autocast():
                pair, valid = self._pair(batch.rows), self._valid(batch.rows)
                loss = self.objective(self.network, batch.x, generator, pair, **valid)
            losses.append(self._finite("held-out loss", loss))
            sizes.append(len(batch.x))
        mean = sum(map(operator.mul, losses, sizes)) / sum(sizes)
        whole = sizes.count(sizes[0])  # a last, smaller batch would count for too much
        return torch.tensor(losses[:whole]), mean

    def end(self) -> None:
        """Leave the weights that are to be kept in the model."""
        if self.stopping.weights is not None:
            network, objective = self.stopping.weights
            self.network.load_state_dict(network)
            self.objective.load_state_dict(objective)
        elif self.average is not None:
            self.network.load_state_dict(self.average)

    def state(self) -> dict[str, Any]:
        """All that is needed to go on as if nothing had happened."""
        return {
            "model": self.network.state_dict(),
            "objective": self.objective.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "average": self.average,
            "stopping": self.stopping.state(),
            "epoch_order": self.epoch_order,
            "noise": self.noise.get_state(),
            "device": self.accelerator.device.type,
            "global": [generator.get_state() for generator in _global_generators(self.accelerator.device)],
            "position": self.at._asdict(),
        }

    def load_state(self, state: dict[str, Any] | None) -> None:
        """Go on from a state, if there is one."""
        if state is None:
            return
        device = self.accelerator.device
        if state["device"] != device.type:
            raise ValueError(
                f"the checkpoint is of a training on {state['device']}, this one on {device.type}, with "
                f"other random numbers: go on where it began, or start anew"
            )
        self.network.load_state_dict(state["model"])
        self.objective.load_state_dict(state["objective"])
        self.optimizer.load_state_dict(state["optimizer"])
        if state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])
        self.average = None if state["average"] is None else copied(state["average"], device)
        self.stopping.load_state(state["stopping"], device)
        self.epoch_order = state["epoch_order"]
        self.order.set_state(state["epoch_order"])
        self.noise.set_state(state["noise"])
        for generator, its_state in zip(_global_generators(device), state["global"], strict=True):
            generator.set_state(its_state)
        self.at = Position(**state["position"])

    def _finite(self, what: str, value: Tensor) -> float:
        number = float(value.detach())
        if not math.isfinite(number):
            raise ValueError(
                f"the {what} became {number} in epoch {self.at.epoch}: use a lower learning_rate, and check "
                f"that the data has no extreme values"
            )
        return number

    def _pair(self, rows: Tensor) -> Tensor | None:
        return None if self.pair is None else _take(self.pair, rows, self.accelerator.device)

    def _valid(self, rows: Tensor) -> dict[str, Tensor]:
        """Which entries are no padding, as an argument of the objective, if there is any."""
        if self.lengths is None:
            return {}
        lengths = self.lengths[rows.to(self.lengths.device)].to(self.accelerator.device)
        return {"valid": valid_entries(lengths, self.shape)}

    def _fixed(self) -> Generator:
        """The same random numbers every time, for what is compared between epochs."""
        return Generator(self.accelerator.device).manual_seed(self.config.seed)


@contextlib.contextmanager
def _fitting() -> Iterator[None]:
    """Say so if a checkpoint, though whole, is not one of this training."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise RunError(
            f"the checkpoint does not fit this training ({type(error).__name__}: {reason}): start anew"
        ) from error


@contextlib.contextmanager
def _engine(config: TrainingConfig) -> Iterator[Any]:
    """Accelerate's engine, the number of threads, and torch's own generators, from which dropout draws.

    All are global, and are left as they were found.
    """
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, PartialState

    _keep_freed_memory()
    threads = torch.get_num_threads()
    states = [AcceleratorState._shared_state, PartialState._shared_state]
    found = [dict(state) for state in states]
    drawn: list[tuple[Generator, Tensor]] = []
    try:
        for state in states:
            state.clear()  # or the first training's device and precision would be those of all
        # Told so, Accelerate lets processes without a GPU work together too.
        cpu = config.device == "cpu" or not torch.accelerator.is_available()
        accelerator = Accelerator(cpu=cpu, mixed_precision=config.precision)
        if config.precision == "fp16" and accelerator.device.type == "cpu":
            raise ValueError("precision fp16 needs a GPU: use bf16 or no")  # Accelerate would ignore it
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        for generator in _global_generators(accelerator.device):
            drawn.append((generator, generator.get_state()))
            generator.manual_seed(config.seed)
        yield accelerator
    finally:
        for generator, its_state in drawn:
            generator.set_state(its_state)
        torch.set_num_threads(threads)
        for state, before in zip(states, found, strict=True):
            state.clear()
            state.update(before)


def _keep_freed_memory() -> None:
    """Let glibc's malloc keep what a step frees for the next one, up to 64 MB of it.

    It begins by giving blocks above 128 kB back to the system, so that each step pays for thousands of page
    faults. Freeing a block that is just below 32 MB, which is never touched, teaches it otherwise.
    """
    torch.empty(2**25 - 2**16, dtype=torch.uint8)


def _global_generators(device: torch.device) -> list[Generator]:
    if device.type != "cuda":
        return [torch.default_generator]
    return [torch.default_generator, torch.cuda.default_generators[device.index or 0]]


def _take(x: Tensor | Samples, rows: Tensor, device: torch.device) -> Tensor:
    if isinstance(x, Samples):
        return x.read(rows.tolist()).to(device)
    return x.index_select(0, rows.to(x.device)).to(device)


@contextlib.contextmanager
def _as_kept(model: nn.Module, average: Weights | None, objective: Objective) -> Iterator[None]:
    """The model as it will be used: in evaluation mode, with its average weights if those are kept."""
    modes = [(module, module.training) for part in (model, objective) for module in part.modules()]
    own = copied(model.state_dict()) if average is not None else None
    try:
        if average is not None:
            model.load_state_dict(average)
        model.eval()
        objective.eval()
        yield
    finally:
        if own is not None:
            model.load_state_dict(own)
        for module, training in modes:
            module.training = training
