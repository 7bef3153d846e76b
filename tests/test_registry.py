"""Registries of parts: options from signatures, readable errors, and one registration for a new part."""

import contextlib
import json
import math
from collections.abc import Sequence
from typing import Any, Literal

import pytest
import torch
from torch import nn

from dcs import evaluation, masking, models, objectives
from dcs._registry import Registry, argument_docs, known, options_of
from tests.helpers import inside


@pytest.fixture
def shapes():
    registry = Registry("shape", given=("colour",))

    @registry.register("square", summary="Four equal sides.", corners=4)
    def square(colour: str, *, side: float = 1.0, filled: bool = False) -> tuple:
        return colour, side, filled

    @registry.register("polygon")
    def polygon(corners: int, *, kind: Literal["regular", "star"] = "regular", sizes: Sequence[int] = (1,)):
        """Any number of corners.

        Args:
            corners: Number of corners.
            kind: Arrangement of
                the corners.
            sizes: Sizes.
        """
        return corners, kind, sizes

    return registry


# --- what is known of a part


def test_a_registry_is_a_mapping_in_the_order_of_registration(shapes):
    assert list(shapes) == ["square", "polygon"]
    assert len(shapes) == 2
    assert "square" in shapes
    assert shapes["square"].traits == {"corners": 4}
    assert shapes["square"].factory("red") == ("red", 1.0, False)


def test_a_summary_is_given_or_the_first_line_of_the_docstring(shapes):
    assert shapes["square"].summary == "Four equal sides."
    assert shapes["polygon"].summary == "Any number of corners."


def test_options_have_the_types_defaults_and_descriptions_of_the_signature(shapes):
    assert list(shapes["square"].options.model_fields) == ["side", "filled"]  # the colour is given
    fields = shapes["polygon"].options.model_fields
    assert fields["corners"].is_required()
    assert fields["kind"].default == "regular"
    assert fields["kind"].description == "Arrangement of the corners."
    assert shapes.check("polygon", {"corners": 3, "sizes": [1, 2]}) == {"corners": 3, "sizes": (1, 2)}


def test_only_options_that_were_given_are_returned_and_passed(shapes):
    assert shapes.check("square", {}) == {}
    assert shapes.make("square", {"side": 3}, "red") == ("red", 3.0, False)
    assert shapes.make("square", {"filled": True}, colour="blue") == ("blue", 1.0, True)


def test_options_of_a_class_include_those_of_its_bases():
    class Base:
        """Base.

        Args:
            size: Size of it.
            depth: Depth of it.
        """

        def __init__(self, size: int = 1, depth: int = 2) -> None:
            self.size, self.depth = size, depth

    class Middle(Base):
        pass

    class Derived(Middle):
        def __init__(self, size: int = 5, **options: Any) -> None:
            super().__init__(size, **options)

    class Alone(Base):
        def __init__(self, width: int = 5) -> None:
            super().__init__(width)

    fields = options_of(Derived, (), "Options").model_fields
    assert {name: field.default for name, field in fields.items()} == {"size": 5, "depth": 2}
    assert fields["depth"].description == "Depth of it."
    assert list(options_of(Alone, (), "Options").model_fields) == ["width"]


def test_options_of_the_parts_of_the_package():
    simsiam = objectives.OBJECTIVES["simsiam"].options.model_fields
    assert {"weight", "predictor", "how", "normalised", "seed"} <= set(simsiam)
    assert not {"masker", "regulariser"} & set(simsiam)
    assert simsiam["predictor"].default == 512
    assert "temperature" in objectives.OBJECTIVES["simclr"].options.model_fields
    assert list(masking.VIEWS["split"].options.model_fields) == ["sigma", "alpha"]
    assert list(evaluation.PROTOCOLS["knn"].options.model_fields) == ["k", "temperature"]


@pytest.mark.parametrize(
    "registry", [objectives.OBJECTIVES, masking.VIEWS, models.NETWORKS, evaluation.PROTOCOLS]
)
def test_every_part_of_the_package_is_described(registry):
    for entry in registry.values():
        assert entry.summary.endswith(".")
        assert "\n" not in entry.summary
        for option, field in entry.options.model_fields.items():
            assert field.description or registry is evaluation.PROTOCOLS, f"{entry.name}.{option}"


def test_descriptions_are_read_from_google_docstrings():
    text = "First line.\n\nArgs:\n    one: The\n        first.\n    two: Second.\n\nReturns:\n    three: No."
    assert argument_docs(text) == {"one": "The first.", "two": "Second."}
    assert argument_docs("No arguments.") == {}


def test_the_table_has_a_row_for_each_part(shapes):
    assert shapes.table().splitlines() == [
        "| shape | summary | options |",
        "|---|---|---|",
        "| `square` | Four equal sides. | `side`, `filled` |",
        "| `polygon` | Any number of corners. | `corners`, `kind`, `sizes` |",
    ]


# --- what is wrong


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("sqare", {}, "shape must be a known name, got 'sqare': did you mean 'square'?"),
        ("Square", {}, "shape must be a known name, got 'Square': did you mean 'square'?"),
        ("xyz", {}, "shape must be one of square, polygon, got 'xyz'"),
        ("square", {"sied": 3}, "unknown option 'sied' of shape 'square': did you mean 'side'?"),
        ("square", {"zzz": 3}, "unknown option 'zzz' of shape 'square': known are side, filled"),
        ("square", {"colour": "red"}, "unknown option 'colour' of shape 'square': known are side, filled"),
        ("square", {"side": "a"}, "side: input should be a valid number, .* got 'a' \\(shape 'square'\\)"),
        ("polygon", {}, "corners of shape 'polygon' must be given"),
        ("polygon", {"corners": 2.5}, "corners: input should be a valid integer, .* got 2.5"),
        ("polygon", {"corners": 3, "kind": "sta"}, "kind: input should be 'regular' or 'star', got 'sta'"),
    ],
)
def test_an_error_is_one_line_with_the_remedy(shapes, name, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        shapes.make(name, options, "red")
    assert "\n" not in str(caught.value)


def test_an_error_names_the_setting_that_holds_the_options(shapes):
    with pytest.raises(ValueError, match=r"^unknown option 'options.sied' of shape 'square'"):
        shapes.check("square", {"sied": 3}, "options")


def test_all_wrong_options_are_named_at_once(shapes):
    with pytest.raises(ValueError, match=r"unknown option 'sied' .*; unknown option 'fil'"):
        shapes.check("square", {"sied": 3, "fil": True})


def test_known_lists_all_names_if_none_is_near():
    assert known("c", ["abc", "abd"]) == "one of abc, abd, got 'c'"


def test_a_part_can_be_removed(shapes):
    shapes.unregister("square")
    assert list(shapes) == ["polygon"]
    with pytest.raises(ValueError, match="must be one of polygon"):
        shapes.unregister("circle9")


# --- a new part is one class or function with one decorator


@contextlib.contextmanager
def registered(registry, name, part, **traits):
    registry.register(name, **traits)(part)
    try:
        yield
    finally:
        registry.unregister(name)


class ToyObjective(objectives.MaskedObjective):
    """Absolute error on masked entries.

    Args:
        strength: Factor of the loss.
    """

    def __init__(self, masker: Any = None, *, strength: float = 1.0) -> None:
        super().__init__(masker)
        self.strength = strength

    def compute(self, model, batch):
        view = self.view(batch)
        error = (model(view.seen) - view.target).abs()
        return self.strength * (error if view.mask is None else error[view.mask]).mean()


class ToyView(masking.Masker):
    """Entries replaced by a constant.

    Args:
        value: Constant.
    """

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def __call__(self, x, generator=None, *, valid=None):
        b = torch.rand(x.shape, generator=generator) < 0.5
        return x.masked_fill(b, self.value), b


def toy_network(shape: Sequence[int], n_components: int = 3, *, bias: bool = True) -> nn.Module:
    """Linear autoencoder.

    Args:
        shape: Shape of one sample.
        n_components: Number of features.
        bias: Whether layers have a bias.
    """
    size = math.prod(shape)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(size, n_components, bias=bias))
    decoder = nn.Sequential(nn.Linear(n_components, size, bias=bias), nn.Unflatten(1, tuple(shape)))
    return models.Autoencoder(encoder, decoder)


def toy_protocol(material: evaluation.Material, *, share: float = 1.0) -> evaluation.Result:
    """Number of features, in percent of a hundred.

    Args:
        share: Factor of the score.
    """
    features = material.test[0].shape[1]
    return evaluation.Result("toy", share * features, {}, {"share": share}, None, 0.0, {})


@pytest.fixture
def toys():
    with (
        registered(objectives.OBJECTIVES, "toy", ToyObjective),
        registered(masking.VIEWS, "toy", ToyView),
        registered(models.NETWORKS, "toy", toy_network),
        registered(evaluation.PROTOCOLS, "toy", toy_protocol, needs="labels"),
    ):
        yield
    assert "toy" not in objectives.names()


def help_of(command):
    """The help of a command, in one line."""
    shown = inside(command, "--help")
    assert shown.returncode == 0, shown.stderr
    return " ".join(shown.stdout.split())


@pytest.mark.usefixtures("toys")
def test_new_parts_are_in_the_help_and_the_tables():
    fit, evaluate = help_of("fit"), help_of("evaluate")
    for text, label in (
        (fit, "Objective:"),
        (fit, "Network:"),
        (fit, "View maker:"),
        (evaluate, "Protocols:"),
    ):
        listed = text.partition(label)[2].partition(".")[0]
        assert "toy" in [name.strip() for name in listed.split(",")]
    assert "| `toy` | Absolute error on masked entries. | `strength` |" in objectives.OBJECTIVES.table()
    assert "| `toy` | Entries replaced by a constant. | `value` |" in masking.VIEWS.table()
    assert "| `toy` | Linear autoencoder. | `bias` |" in models.NETWORKS.table()
    assert (
        "| `toy` | Number of features, in percent of a hundred. | `share` |" in evaluation.PROTOCOLS.table()
    )


def test_parts_that_were_removed_are_not_in_the_help():
    assert "toy" not in help_of("fit")


@pytest.mark.usefixtures("toys")
def test_new_parts_work_from_the_command(tmp_path):
    parts = ("--objective", "toy", "--network", "toy", "--view", "toy", "--epochs", "1", "--threads", "1")
    run = tmp_path / "run"
    options = ("--set", 'objective_options={"strength": 2}', "--set", 'masking={"value": 0.5}')
    fitted = inside("fit", "digits", *parts, *options, "--out", run)
    assert fitted.returncode == 0, fitted.stderr
    training = json.loads((run / "config.json").read_text())["training"]
    assert training["objective"] == training["network"] == "toy"
    assert training["masking"] == {"kind": "toy", "value": 0.5}
    assert training["n_components"] == 3  # the network's own default
    scored = inside("evaluate", run, "--protocol", "toy,linear", "--set", "share=2", "--json")
    assert scored.returncode == 0, scored.stderr
    first, second = map(json.loads, scored.stdout.splitlines())
    assert (first["protocol"], first["score"]) == ("toy", 6)
    assert second["score"] > 20


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--objective", "toi"], "did you mean 'toy'"),
        (["--objective", "toy", "--set", 'objective_options={"strenght": 1}'], "did you mean 'strength'"),
        (["--network", "toi"], "did you mean 'toy'"),
        (["--network", "toy", "--set", 'network_options={"bais": true}'], "did you mean 'bias'"),
        (["--view", "toi"], "did you mean 'toy'"),
        (["--view", "toy", "--set", 'masking={"valeu": 1}'], "did you mean 'value'"),
    ],
)
def test_wrong_names_and_options_of_new_parts_are_named(arguments, message, tmp_path):
    fitted = inside("fit", "digits", *arguments, "--out", tmp_path / "run")
    assert fitted.returncode == 1
    assert message in fitted.stderr
    assert len(fitted.stderr.splitlines()) == 1


def test_an_option_that_no_protocol_has_is_refused():
    with pytest.raises(
        ValueError, match="option of linear, knn must be a known name, got 'sed': did you mean"
    ):
        evaluation.check_options(["linear", "knn"], {"sed": 1})
    with pytest.raises(ValueError, match="k: input should be a valid integer"):
        evaluation.check_options(["linear", "knn"], {"k": "abc"})
    evaluation.check_options(["linear", "knn"], {"k": 5, "seed": 1})


def test_every_option_of_the_parts_of_the_package_is_described():
    for registry in (objectives.OBJECTIVES, masking.VIEWS, models.NETWORKS, evaluation.PROTOCOLS):
        for entry in registry.values():
            for name, option in entry.options.model_fields.items():
                assert option.description, (entry.name, name)
