"""`python -m fusedconv`: explain a choice in a terminal, without a browser."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import Capabilities, FusedConvError, tunings
from .devices import DEVICES
from .operator import Operator, builtin, load_operator


def numbers(text: str) -> tuple[int, ...]:
    """`1,3,224,224` as a tuple."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not whole numbers with commas") from None


def reals(text: str) -> tuple[float, ...]:
    """`0.2,0.5` as a tuple."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not numbers with commas") from None


def tunable(text: str) -> tuple[str, float]:
    """`WORKGROUP_SIZE=128` as a pair."""
    name, _, value = text.partition("=")
    try:
        return name, int(value) if value.lstrip("-").isdigit() else float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NUMBER") from None


ATTRIBUTES: dict[str, Callable[[str], Any]] = {
    "activation": str,
    "activation_params": reals,
    "auto_pad": str,
    "dilations": numbers,
    "group": int,
    "kernel_shape": numbers,
    "output_padding": numbers,
    "output_shape": numbers,
    "pads": numbers,
    "strides": numbers,
}


def parser() -> argparse.ArgumentParser:
    """The command line: `plan`, `explain`, `wgsl` and `devices`."""
    top = argparse.ArgumentParser("python -m fusedconv", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    for name, what in (
        ("plan", "the chosen variant, its passes, dispatch and scratch"),
        ("explain", "every variant: chosen, eligible, demoted, superseded or refused, and why"),
        ("wgsl", "the WGSL of every pass"),
    ):
        command = commands.add_parser(name, help=what, description=what)
        command.add_argument("--x", type=numbers, required=True, help="1,3,224,224")
        command.add_argument("--w", type=numbers, required=True, help="64,3,7,7")
        command.add_argument("--dtype", default="float32", help="float32 or float16")
        command.add_argument("--bias", action="store_true", help="with a bias")
        command.add_argument("--z", action="store_true", help="with a residual")
        command.add_argument("--operator", help="a shipped operator's name, or a manifest's path")
        command.add_argument("--device", default="default", help="a name of `devices`, or JSON")
        command.add_argument("--variant", help="pin a variant by id")
        command.add_argument("--tunable", type=tunable, action="append", default=[])
        command.add_argument("--no-extensions", action="store_true")
        command.add_argument("--tunings", help="a JSON file of fusedconv.tunings")
        command.add_argument("--json", action="store_true", help="data for programs")
        for attribute, kind in ATTRIBUTES.items():
            command.add_argument("--" + attribute.replace("_", "-"), dest=attribute, type=kind)
    commands.add_parser("devices", help="the device descriptions that --device knows by name")
    commands.choices["plan"].add_argument("--wgsl", action="store_true", help="with the WGSL")
    return top


def device(text: str) -> Capabilities:
    """A device by name, or from a JSON file."""
    if text in DEVICES:
        return DEVICES[text]
    try:
        return Capabilities.from_json(Path(text).read_text("utf-8"))
    except OSError as error:
        names = ", ".join(DEVICES)
        raise SystemExit(f"--device {text}: {error.strerror}; known by name: {names}") from None


def operator(text: str | None) -> Operator:
    """A shipped operator, or one from a path."""
    return builtin(text or "fusedconv") if not text or "/" not in text else load_operator(text)


def answer(options: argparse.Namespace) -> str:
    """What the command prints."""
    if options.command == "devices":
        lines = [f"{name}\n{device.to_json(indent=1)}" for name, device in DEVICES.items()]
        return "\n".join(lines)
    attributes = {k: getattr(options, k) for k in ATTRIBUTES if getattr(options, k) is not None}
    arguments: dict[str, Any] = dict(
        dtype=options.dtype, bias=options.bias, z=options.z, device=device(options.device),
        extensions=not options.no_extensions, tunables=dict(options.tunable),
        variant=options.variant, **attributes,
    )  # fmt: skip
    loaded = operator(options.operator)
    if options.tunings:
        tunings.load(Path(options.tunings))
    if options.command == "explain":
        explanation = loaded.explain(options.x, options.w, **arguments)
        if options.json:
            return json.dumps(explanation.to_dict(), indent=1)
        return str(explanation)
    plan = loaded.plan(options.x, options.w, **arguments)
    wgsl = "\n".join(f"// {item.id}: {item.template}\n{item.wgsl}" for item in plan.passes)
    if options.command == "wgsl":
        return wgsl
    if options.json:
        return json.dumps(plan.to_dict(), indent=1)
    return f"{plan}\n{wgsl}" if options.wgsl else str(plan)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0, or 2 after an error in one line."""
    options = parser().parse_args(arguments)
    try:
        print(answer(options))
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:  # `| head` has seen enough
        sys.stderr.close()
    except FusedConvError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
