"""Puts known faults into a copy of the checkout, one at a time, and sees that a test fails.

    python tests/mutants.py [--list] [--kind contract|browser] [--only NAME ...]

Each mutant brings back one kind of fault of tests/hazards.py (`GUARDS`), and names the tests that
must notice: those are run against the whole copy first, then against each mutant. One that
survives is a test that is missing. The exit status is the number of survivors.

Browser tests take half a minute each, since the wheel is built anew. On lavapipe all 84 are killed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("py", "shaders", "tests", "web", "pyproject.toml", "README.md", "playwright.config.py")
# Large, and the same for every mutant.
LINKED = (".venv", "web/node_modules", "build/lavapipe", "build/matrix", "build/installed")
LINKED_WHEELS = ("build/wheels/dependencies", "build/wheels/numpy")

HAZARDS = "tests/browser/test_hazards.py::"
CONTRACT = "tests/contract/test_hazards.py::"
REQUEST = "tests/contract/test_request.py::"
NUMBERS = "tests/browser/test_numbers.py::"
EXECUTION = "tests/browser/test_execution.py::"
OPERANDS = "tests/contract/test_operands.py::"
TENSOR = "tests/browser/test_tensor.py::"
DEVICE = "tests/browser/test_device.py::"
HOSTILE = "tests/browser/test_hostile.py::"
TRANSPOSED = "tests/browser/test_convtranspose.py::"
SPLITTING = "tests/contract/test_splitting.py::"

KERNELS = "shaders/fusedconv/"
LIB = "shaders/lib/"
PY = "py/fusedconv/"


@dataclass(frozen=True)
class Mutant:
    """`old`, which `file` has exactly once, replaced by `new`; `tests` are pytest's arguments."""

    name: str
    hazard: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


# By the hazard that they bring back: name, file, old text, new text, tests.
Row = tuple[str, str, str, str, str]
MUTANTS_OF: dict[str, list[Row]] = {
    "four different pads, with channels a multiple of 4 and not": [
        (
            "pads in pairs",
            PY + "request.py",
            "return [(pads[i], pads[n + i]) for i in range(n)]",
            "return [(pads[2 * i], pads[2 * i + 1]) for i in range(n)]",
            CONTRACT + "test_padding_has_one_source",
        ),
        (
            "top and left swapped",
            KERNELS + "manifest.json",
            '"convPadTop": "effectivePadTop"',
            '"convPadTop": "effectivePadLeft"',
            HAZARDS + "test_case[padding]",
        ),
        (
            "windows that begin in the padding",
            LIB + "indexing.wgsl.jinja",
            "return (u32(max(-start, 0)) + dilation - 1u) / dilation;",
            "return 0u;",
            HAZARDS + "test_case[padding]",
        ),
    ],
    "odd SAME totals made symmetric; UPPER and LOWER swapped": [
        (
            "SAME totals made symmetric",
            KERNELS + "manifest.json",
            'else samePadWidth - floor(samePadWidth / 2)"',
            'else floor(samePadWidth / 2)"',
            HAZARDS + "test_case[same]",
        ),
        (
            "UPPER and LOWER swapped",
            PY + "request.py",
            'padding.append((less, more) if auto == "SAME_UPPER" else (more, less))',
            'padding.append((more, less) if auto == "SAME_UPPER" else (less, more))',
            CONTRACT + "test_padding_has_one_source",
        ),
    ],
    "pads computed a second time, unlike the shape's": [
        (
            "SAME without the dilation",
            KERNELS + "manifest.json",
            "(outputWidth - 1) * strideW + (kernelWidth - 1) * dilationW + 1 - inputWidth",
            "(outputWidth - 1) * strideW + kernelWidth - inputWidth",
            CONTRACT + "test_padding_has_one_source",
        ),
    ],
    "SAME with a stride; a stride beyond the input": [
        (
            "SAME with negative padding",
            KERNELS + "manifest.json",
            '"samePadHeight": "max(0, (outputHeight - 1)',
            '"samePadHeight": "max(-9, (outputHeight - 1)',
            HAZARDS + "test_case[same]",
        ),
    ],
    "wrong pads, strides, dilations, kernel extents, ranks, channels, bias": [
        (
            "negative pads",
            PY + "request.py",
            'per_axis(given["pads"], 2 * n, 0, "pads")',
            'per_axis(given["pads"], 2 * n, -9, "pads")',
            REQUEST + "test_refused",
        ),
        (
            "floats that are whole",
            PY + "request.py",
            "return operator.index(value)",
            "return int(value)",
            REQUEST + "test_refused",
        ),
        (
            "a kernel without its dilation",
            PY + "request.py",
            "window = (kernel[i] - 1) * dilations[i] + 1\n        if",
            "window = kernel[i]\n        if",
            REQUEST + "test_refused",
        ),
        (
            "a bias of two dimensions",
            PY + "request.py",
            "if got != (channels,):",
            "if got[:1] != (channels,):",
            REQUEST + "test_refused",
        ),
        (
            "a residual that broadcasts",
            PY + "request.py",
            "if got != output:",
            "if len(got) != len(output):",
            REQUEST + "test_refused",
        ),
        (
            "flags by their truth",
            PY + "request.py",
            '    raise RequestError(argument, repr(value), "True or False")',
            "    return bool(value)",
            "tests/contract/test_hostile.py::test_any_value",
        ),
        (
            "freed tensors",
            PY + "operands.py",
            "if value.freed:",
            "if value is None:",
            HOSTILE + "test_misuse_is_refused_by_name",
        ),
        (
            "a group that divides nothing",
            PY + "request.py",
            "if w[0] % group:",
            "if w[0] % group > 1:",
            REQUEST + "test_refused",
        ),
    ],
    "1-D lifted to 2-D in part: attribute, residual, message": [
        (
            "a message of the lifted residual",
            PY + "request.py",
            'raise RequestError("z", f"shape {got}", f"{output}, the',
            'raise RequestError("z", f"shape {got}", f"{(*output[:2], 1, *output[2:])}, the',
            CONTRACT + "test_messages_keep_the_callers_dimensions",
        ),
        (
            "1-D dilation not lifted",
            KERNELS + "conv1d-tiled-reg.wgsl.jinja",
            "n * params.strideW + kw * params.dilationW",
            "n * params.strideW + kw",
            HAZARDS + "test_case[one-dimension]",
        ),
    ],
    "z after the activation, within its group, without bias; activation of the first group only": [
        (
            "z after the activation",
            LIB + "epilogue.wgsl.jinja",
            """  v += f32(zResidual[index]);
{% endif %}
  return {{ fScalar }}({{ "activate(v)" if activated else "v" }});""",
            """{% endif %}
  return {{ fScalar }}({{ "activate(v)" if activated else "v" }}{% if hasZ %} + f32(zResidual[index]){% endif %});""",
            HAZARDS + "test_case[epilogue]",
        ),
        (
            "z within its group",
            KERNELS + "conv-direct-nd.wgsl.jinja",
            "finish(sum + part, oc, index)",
            "finish(sum + part, oc, index % (params.outChannelsPerGroup * params.outD * params.outH * params.outW))",
            HAZARDS + "test_case[epilogue]",
        ),
        (
            "z only beside a bias",
            LIB + "epilogue.wgsl.jinja",
            "{% if hasZ %}",
            "{% if hasZ and hasBias %}",
            HAZARDS + "test_case[epilogue]",
        ),
        (
            "bias of the first group",
            KERNELS + "conv-direct-unrolled.wgsl.jinja",
            "finish(sum + part, oc, index)",
            "finish(sum + part, oc % params.outChannelsPerGroup, index)",
            HAZARDS + "test_case[epilogue]",
        ),
        (
            "activation of the first group",
            KERNELS + "conv-direct-unrolled.wgsl.jinja",
            "y[index] = finish(sum + part, oc, index);",
            "y[index] = select({{ fScalar }}(sum + part), finish(sum + part, oc, index), group == 0u);",
            HAZARDS + "test_case[epilogue]",
        ),
    ],
    "the residual's memory reused for the output; z and x one tensor": [
        (
            "the result in the residual's memory",
            PY + "execution.py",
            "out = self.out.storage.id if self.out is not None else 0\n        result",
            'out = storages[-1].share().id if "z" in self.operands else 0\n        result',
            HAZARDS + "test_operands_are_left_as_they_are",
        ),
        (
            "an output that is an operand",
            PY + "execution.py",
            "operand.storage.is_on(out.storage):",
            "operand is out:",
            EXECUTION + "test_out_is_written_and_checked",
        ),
    ],
    "a missing bias read from a stale buffer": [
        (
            "a kernel found without its bias",
            PY + "api.py",
            "key = (operator, tunings.revision, *shapes.items(), dtype, frozen(options))",
            'key = (operator, shapes["x"], shapes["w"], dtype, frozen(options))',
            HAZARDS + "test_requests_that_differ_in_one_thing",
        ),
    ],
    "f16 accumulation": [
        (
            "f16 sums of taps",
            KERNELS + "conv-direct-unrolled.wgsl.jinja",
            """{% if not depthwise %}
    if ((ci + 1u) % {{ step }} == 0u) {
      sum += part;""",
            """{% if not depthwise %}
    if ((ci + 1u) % {{ step }} == 0u) {
      sum = f32({{ fScalar }}(sum) + {{ fScalar }}(part));""",
            HAZARDS + "test_half[sums]",
        ),
        (
            "f16 sums of tiles",
            LIB + "tiles.wgsl.jinja",
            "{{ sums.endTiles(threadRows, 1) }}",
            """{% for r in range(threadRows) %}
  sum{{ r }}_0 = vec4<f32>(vec4<{{ fScalar }}>(sum{{ r }}_0) + vec4<{{ fScalar }}>(part{{ r }}_0));
{% endfor %}
}""",
            HAZARDS + "test_half[sums]",
        ),
        (
            "f16 sums of products",
            "shaders/ext-gemm-rows.wgsl.jinja",
            """u, inputs)") }}
{{ sums.end(quadsM, gemmThreadN) }}""",
            """u, inputs)") }}
{% for n in range(gemmThreadN) %}
{% for m in range(quadsM) %}
      sum{{ m }}_{{ n }} = vec4<f32>(vec4<{{ fScalar }}>(sum{{ m }}_{{ n }}) + vec4<{{ fScalar }}>(part{{ m }}_{{ n }}));
{% endfor %}
{% endfor %}""",
            HAZARDS + "test_half[sums]",
        ),
    ],
    "f16 index arithmetic": [
        (
            "columns counted in f16",
            KERNELS + "conv-direct-nd.wgsl.jinja",
            "let ow = index % params.outW;",
            "let ow = u32({{ fScalar }}(index % params.outW));",
            HAZARDS + "test_half[long]",
        ),
    ],
    "WGSL that only one variant, activation or dtype has and that does not compile": [
        (
            "a clamp of mixed types",
            LIB + "activation.wgsl.jinja",
            "let r = select(raised, 1.0, raised > 1.0);",
            "let r = f32(clamp({{ fScalar }}(line), 0.0, f32(1.0)));",
            "tests/browser/test_wgsl.py::test_every_shader_compiles",
        ),
    ],
    "infinity as a WGSL constant": [
        (
            "infinity written out",
            LIB + "activation.wgsl.jinja",
            "{%- elif value > 3.4028235e38 %}",
            "{%- elif value > 3.4028235e380 %}",
            CONTRACT + "test_no_infinity_in_wgsl",
        ),
    ],
    "slack times zero, where the slack holds NaN": [
        (
            "weights past the end of K",
            LIB + "tiles.wgsl.jinja",
            "let inside = (k + QUAD < vec4(params.K)) & vec4(m < params.M);",
            "let inside = vec4(m < params.M);",
            HAZARDS + "test_not_a_number_stays_with_its_channel_and_image",
        ),
        (
            "padding multiplied by zero",
            "shaders/ext-gemm-tiled.wgsl.jinja",
            "return select(0.0, f32(x[select(0u, at, inside)]), inside);",
            "return f32(x[select(0u, at, inside)]) * f32(inside);",
            HAZARDS + "test_not_a_number_stays_with_its_channel_and_image",
        ),
    ],
    "loops over K that run past its end": [
        (
            "columns past the end of K",
            LIB + "tiles.wgsl.jinja",
            """  if (k >= params.K) {
    return vec4(0.0);
  }
  let tap""",
            "  let tap",
            HAZARDS + "test_not_a_number_stays_with_its_channel_and_image",
        ),
        (
            "the last slice",
            "shaders/ext-gemm-tiled.wgsl.jinja",
            "let endTile = min(firstTile + {{ gemmSliceTiles }}u, {{ gemmKTiles }}u);",
            "let endTile = firstTile + {{ gemmSliceTiles }}u;",
            HAZARDS + "test_not_a_number_stays_with_its_channel_and_image",
        ),
        (
            "1-D taps past the end of K",
            KERNELS + "conv1d-tiled-reg.wgsl.jinja",
            "m < params.outChannels && k < K);",
            "m < params.outChannels);",
            HAZARDS + "test_not_a_number_stays_with_its_channel_and_image",
        ),
    ],
    "NaN tests folded away; NaN that spreads": [
        (
            "NaN not put back",
            LIB + "activation.wgsl.jinja",
            "return select(r, v, isNaN(v));",
            "return r;",
            NUMBERS + "test_activations",
        ),
        (
            "NaN told by comparison",
            LIB + "activation.wgsl.jinja",
            "return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u;",
            "return v != v;",
            CONTRACT + "test_nan_is_told_by_its_bits",
        ),
    ],
    "fast paths by the wrong width, without dilation, with another stride": [
        (
            "lanes without dilation",
            KERNELS + "conv2d-grouped-large-w4.wgsl.jinja",
            "{% set tapStep = 1 if dilatedLanes else dilationWSpec %}",
            "{% set tapStep = 1 %}",
            HAZARDS + "test_case[variants]",
        ),
        (
            "lanes by the input's width",
            KERNELS + "conv2d-grouped-large-w4.wgsl.jinja",
            "if (ow + {{ l * pitch }}u < {{ outW }}u) {",
            "if (ow + {{ l * pitch }}u < {{ inW }}u) {",
            HAZARDS + "test_case[variants]",
        ),
        (
            "lanes without stride",
            KERNELS + "ext-grouped-vec4.wgsl.jinja",
            "let column{{ l }} = u32(w0 + {{ l * strideW }});",
            "let column{{ l }} = u32(w0 + {{ l }});",
            HAZARDS + "test_case[variants]",
        ),
        (
            "rows of the next group",
            KERNELS + "ext-gemm-1x1.wgsl.jinja",
            "if (n < {{ columns }}u && m < {{ outChannelsPerGroup }}u) {",
            "if (n < {{ columns }}u) {",
            HAZARDS + "test_case[variants]",
        ),
        (
            "columns of one image",
            KERNELS + "ext-gemm-1x1.wgsl.jinja",
            "let at = (n / {{ plane }}u * {{ outChannels }}u + channel) * {{ plane }}u + n % {{ plane }}u;",
            "let at = channel * {{ plane }}u + n;",
            HAZARDS + "test_case[variants]",
        ),
    ],
    "depthwise multipliers; 1x1 and 2x1 images; long kernels in groups; 5, 7, 9, 12 channels": [
        (
            "a depthwise multiplier of 1",
            KERNELS + "conv-direct-nd.wgsl.jinja",
            "let group = oc / params.outChannelsPerGroup;",
            "let group = oc % (params.inChannels / params.inChannelsPerGroup);",
            HAZARDS + "test_case[variants]",
        ),
        (
            "channels of a group in fours",
            KERNELS + "conv-direct-unrolled.wgsl.jinja",
            "for (var ci = 0u; ci < params.inChannelsPerGroup; ci++) {",
            "for (var ci = 0u; ci < max(1u, params.inChannelsPerGroup & 0xfffffffcu); ci++) {",
            HAZARDS + "test_case[variants]",
        ),
    ],
    "vec4s of a row past its end or before its start; blocks that an image does not fill": [
        (
            "two elements of a vec4 loaded as one",
            KERNELS + "ext-depthwise.wgsl.jinja",
            "(lead + depthwiseWindow) % 4 == 1",
            "(lead + depthwiseWindow) % 4 in [1, 2]",
            HAZARDS + "test_case[depthwise]",
        ),
        (
            "the next row after the end of a row",
            KERNELS + "ext-depthwise.wgsl.jinja",
            "{{ load(p) }}, there && inside{{ p }});",
            "{{ load(p) }}, there && iw + {{ p }} >= 0);",
            HAZARDS + "test_case[depthwise]",
        ),
        (
            "products before the window is full",
            KERNELS + "ext-depthwise.wgsl.jinja",
            "if (step < {{ rows - 1 }}u) {",
            "if (step < {{ rows - 2 }}u) {",
            HAZARDS + "test_case[depthwise]",
        ),
        (
            "rows below the image stored",
            KERNELS + "ext-depthwise.wgsl.jinja",
            "if (h < {{ outputHeight }}u && ow < {{ outputWidth }}u) {",
            "if (ow < {{ outputWidth }}u) {",
            HAZARDS + "test_half[depthwise]",
        ),
    ],
    "3-D in f16": [
        (
            "one plane in f16",
            KERNELS + "conv-direct-nd.wgsl.jinja",
            "for (var kd = firstD; kd < endD; kd++) {",
            'for (var kd = firstD; kd < {{ "firstD + 1u" if usesF16 else "endD" }}; kd++) {',
            HAZARDS + "test_half[sums]",
        ),
    ],
    "a second run with the same resident operands that differs": [
        (
            "bind groups without the output",
            PY + "gpu/bridge.js",
            "for (const record of slots) key += `${record.id},`;",
            "for (const record of slots.slice(1)) key += `${record.id},`;",
            HAZARDS + "test_case[variants]",
        ),
    ],
    "more than 65535 workgroups in a dimension": [
        (
            "grids that are not unfolded",
            LIB + "indexing.wgsl.jinja",
            "let index = (workgroup.y * workgroups.x + workgroup.x) *",
            "let index = (0u * workgroups.x + workgroup.x) *",
            HAZARDS + "test_folded_grids",
        ),
    ],
    "scratch over the binding limit; a device with WebGPU's default limits": [
        (
            "workgroup memory of any size",
            "shaders/convtranspose/manifest.json",
            "tunables.GEMM_STAGES * gemmTileK * (gemmTileM + gemmTileN) * 4 <= device.limits.maxComputeWorkgroupStorageSize",
            "true",
            CONTRACT + "test_large_tiles_stay_within_the_device",
        ),
        (
            "columns of any size",
            KERNELS + "manifest.json",
            "batchSize * kernelRows * outputSpatial * 4 <= device.limits.maxStorageBufferBindingSize and batchSize * kernelRows * outputSpatial * 4 <= device.limits.maxBufferSize",
            "true",
            CONTRACT + "test_plans_stay_within_the_device",
        ),
    ],
    "tensors over the binding limit": [
        (
            "parts without their halo",
            PY + "pieces.py",
            "low = min(max(first, 0), height - 1)\n    high",
            "low = min(max(rows[0] * stride, 0), height - 1)\n    high",
            SPLITTING + "test_the_parts_make_the_whole",
        ),
    ],
    "f16 tensors with an odd number of elements": [
        (
            "the last half not written",
            PY + "gpu/buffers.js",
            "if (whole === nbytes) return;",
            "if (whole) return;",
            TENSOR + "test_halves_round_trip_with_odd_counts",
        ),
    ],
    "a cache key that lacks something": [
        (
            "plans by the names of attributes",
            PY + "operator.py",
            "key = (key, frozen(attributes), capabilities.key, tunings.revision)",
            "key = (key, tuple(attributes), capabilities.key, tunings.revision)",
            CONTRACT + "test_what_differs_in_one_thing_has_another_kernel",
        ),
        (
            "kernels without their attributes",
            PY + "api.py",
            "dtype, frozen(options))",
            "dtype)",
            HAZARDS + "test_requests_that_differ_in_one_thing",
        ),
        (
            "kernels without their dtype",
            PY + "api.py",
            "*shapes.items(), dtype, frozen(options))",
            "*shapes.items(), frozen(options))",
            HAZARDS + "test_dtypes_that_take_turns",
        ),
        (
            "instances without the residual",
            PY + "prepared.py",
            'key = (operands["x"].shape, operands["z"].shape if z is not None else None)\n            instance',
            'key = (operands["x"].shape, None)\n            instance',
            HAZARDS + "test_one_prepared_object_serves_many_requests",
        ),
        (
            "pipelines by their pass's name",
            PY + "gpu/pipelines.js",
            "const key = `${signature(pass.bindings)}\\n${pass.wgsl}`;",
            "const key = `${signature(pass.bindings)}\\n${pass.name}${pass.template}`;",
            HAZARDS + "test_requests_that_differ_in_one_thing",
        ),
        (
            "weights laid out once for all",
            PY + "gpu/bridge.js",
            "if (!group.once.has(plan.onceKey)) group.once",
            'plan.onceKey = "once";\n      if (!group.once.has(plan.onceKey)) group.once',
            HAZARDS + "test_one_prepared_object_serves_many_requests",
        ),
    ],
    "an empty run before a real one": [
        (
            "instances without the batch",
            PY + "prepared.py",
            "        key = (x_shape, z_shape)\n",
            "        key = ((1, *x_shape[1:]), z_shape)\n",
            HAZARDS + "test_empty_before_real",
        ),
    ],
    "two runs at once, one of them failing": [
        (
            "operands of a failed call",
            PY + "execution.py",
            "            turn.end()\n            drop(o for o in operands if isinstance(o, Storage))",
            "            turn.end()\n            self.operands = operands",
            EXECUTION + "test_one_failing_harms_no_other",
        ),
        (
            "calls that overtake",
            PY + "execution.py",
            "            await turn.wait()\n            # Nothing",
            "            # Nothing",
            EXECUTION + "test_calls_keep_their_order",
        ),
    ],
    "a lost device that yields zeros": [
        (
            "losses not looked for",
            PY + "gpu/buffers.js",
            "if (lostReason !== null) throw lostError();",
            "",
            DEVICE + "test_a_lost_device_is_an_error_and_then_replaced",
        ),
    ],
    "an error that drops the submission and returns stale data": [
        (
            "errors of operands not asked for",
            PY + "gpu/buffers.js",
            "return failed ? refused(failed.error) : 0;",
            "return 0;",
            EXECUTION + "test_a_gpu_error_is_told_not_swallowed",
        ),
    ],
    "memory or proxies that grow with runs, failing ones too": [
        (
            "scratch kept",
            PY + "gpu/bridge.js",
            "if (record && !instance.once?.records?.includes(record)) store.release(record);",
            "if (!record) store.release(record);",
            HAZARDS + "test_mixed_calls_leave_memory_flat",
        ),
        (
            "the caller's output given back",
            PY + "gpu/buffers.py",
            "if mine and isinstance(result, int):",
            "if isinstance(result, int):",
            HOSTILE + "test_cancelled_between_submission_and_result",
        ),
        (
            "compiled for nobody",
            PY + "gpu/pipelines.py",
            "await kept(self.bridge.compile(self.text), self._unwanted)",
            "await self.bridge.compile(self.text)",
            HOSTILE + "test_cancelled_anywhere",
        ),
        (
            "a profiled result that nobody took",
            PY + "execution.py",
            "            if not out:\n                give_back(gpu, text)\n",
            "",
            HOSTILE + "test_what_goes_wrong_in_the_callers_own_code",
        ),
        (
            "written again before the batch is submitted",
            PY + "gpu/buffers.js",
            "push(holding ? deferred : idle, record);",
            "push(idle, record);",
            EXECUTION + "test_a_batch_is_one_submission",
        ),
    ],
    "views, byte orders, dtypes, scalars, lists": [
        (
            "big-endian arrays as they lie",
            PY + "operands.py",
            "np.ascontiguousarray(self.array, dtype=dtype)",
            "np.ascontiguousarray(self.array)",
            OPERANDS + "test_any_numpy_view",
        ),
        (
            "strided buffers as they lie",
            PY + "operands.py",
            "if self.view.c_contiguous and self.view.nbytes:",
            "if self.view.nbytes:",
            OPERANDS + "test_buffers_with_a_shape",
        ),
        (
            "mixed dtypes",
            PY + "operands.py",
            "if not cast or self.dtype not in _CASTABLE:",
            "if not (cast or self.usable) or self.dtype not in _CASTABLE:",
            OPERANDS + "test_dtypes_must_agree",
        ),
    ],
    "attributes as NumPy integers, tuples, arrays, bytes": [
        (
            "bytes that are no text",
            PY + "request.py",
            "if isinstance(value, (bytes, bytearray)) else value",
            "if isinstance(value, bytearray) else value",
            REQUEST + "test_output_shape",
        ),
    ],
    "a view into memory that moves or changes": [
        (
            "operands not copied while the device opens",
            PY + "execution.py",
            "operands = [o.snapshot() if isinstance(o, HostOperand) else o\n",
            "operands = [o\n",
            DEVICE + "test_operands_may_change_while_the_device_opens",
        ),
    ],
    "no Float16Array; no run_sync": [
        (
            "a Float16Array",
            PY + "gpu/readback.js",
            "return half ? new Uint16Array(buffer)",
            "return half ? new Float16Array(buffer)",
            TENSOR + "test_reading_for_javascript",
        ),
    ],
    "auto_pad, output_padding, stride with dilation, output_shape, odd channels": [
        (
            "transposed UPPER and LOWER swapped",
            "shaders/convtranspose/manifest.json",
            '"cropW": "(floor(surplusW / 2) if attrs.auto_pad == \\"SAME_UPPER\\" else ceil(surplusW / 2))',
            '"cropW": "(ceil(surplusW / 2) if attrs.auto_pad == \\"SAME_UPPER\\" else floor(surplusW / 2))',
            TRANSPOSED + "test_random_requests",
        ),
        (
            "output_padding lost in 1-D",
            PY + "request_transposed.py",
            "full = bare + extra[i]",
            "full = bare + (extra[i] if n > 1 else 0)",
            "tests/contract/test_convtranspose.py::test_the_reference_agrees_with_onnxruntime",
        ),
        (
            "stride and dilation together",
            "shaders/convtranspose/taps.wgsl.jinja",
            "let back = stride - dilation % stride;",
            "let back = stride - 1u % stride;",
            TRANSPOSED + "test_random_requests",
        ),
        (
            "transposed inputs past the end",
            "shaders/convtranspose/taps.wgsl.jinja",
            "let skipped = select(0u, (least - first + step - 1u) / step * step, least > first);",
            "let skipped = 0u;",
            TRANSPOSED + "test_random_requests",
        ),
    ],
    "zeros, stale data and silent fallbacks that look like success": [
        (
            "a pin that is not followed",
            PY + "operator.py",
            "variant = self.pinned(selection, pin) if pin is not None else selection.choose()",
            "variant = selection.choose()",
            "tests/contract/test_selection.py::test_a_pinned_variant_runs_or_says_which_guard_failed",
        ),
        (
            "a superseding variant that cannot run",
            PY + "selection.py",
            "return next((rival.id for rival in rivals if self.refusal(rival) is None), None)",
            "return next((rival.id for rival in rivals), None)",
            "tests/contract/test_selection.py::test_the_same_choice_as_a_naive_reading",
        ),
    ],
}
MUTANTS = [
    Mutant(name, hazard, file, old, new, tuple(tests.split()))
    for hazard, rows in MUTANTS_OF.items()
    for name, file, old, new, tests in rows
]


def copy_checkout(folder: Path) -> None:
    """A checkout of its own, with its own wheel; what no mutant changes is linked."""
    ignore = shutil.ignore_patterns("__pycache__", "node_modules", ".*_cache")
    for name in COPIED:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=ignore)
        else:
            shutil.copy2(source, target)
    for name in (*LINKED, *LINKED_WHEELS):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(ROOT / name)
    for name in ("build/stamps", "build/pyodide"):
        shutil.copytree(ROOT / name, folder / name)


def tested(folder: Path, tests: Iterable[str]) -> tuple[str, str]:
    """'passed', 'failed' or 'broken' (it could not be run), and the end of pytest's output."""
    options = ("-q", "--no-header", "-x", "--tb=line", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stdout.strip().splitlines()[-1:] or [done.stderr[-300:]]
    tail = "\n".join(done.stdout.splitlines()[-12:])
    if done.returncode == 0 and "skipped" not in last[0]:
        return "passed", tail
    return ("failed" if re.search(r"\b\d+ failed", last[0]) else "broken"), tail


def tried(folder: Path, mutant: Mutant) -> tuple[str, str]:
    """'killed', 'survived' or 'broken', and the end of pytest's output."""
    file = folder / mutant.file
    original = file.read_text("utf-8")
    if original.count(mutant.old) != 1:
        return "broken", f"{mutant.file} has the old text {original.count(mutant.old)} times"
    file.write_text(original.replace(mutant.old, mutant.new), "utf-8")
    try:
        outcome, tail = tested(folder, mutant.tests)
    finally:
        file.write_text(original, "utf-8")
    return {"failed": "killed", "passed": "survived"}.get(outcome, outcome), tail


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name the mutants and their tests")
    parser.add_argument("--kind", choices=("contract", "browser"), help="those of such tests")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="mutants with this in the name")
    options = parser.parse_args(arguments)
    wanted = options.only or [""]
    chosen = [m for m in MUTANTS if any(word in m.name for word in wanted)]
    if options.kind:
        chosen = [m for m in chosen if m.tests[0].startswith(f"tests/{options.kind}/")]
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name}: {' '.join(mutant.tests)}")
        return 0
    (ROOT / "build").mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="mutants-", dir=ROOT / "build") as name:
        copy_checkout(Path(name))
        return survivors(Path(name), chosen)


def survivors(folder: Path, chosen: Sequence[Mutant]) -> int:
    """How many of the mutants no test of theirs notices."""
    outcome, tail = tested(folder, dict.fromkeys(test for m in chosen for test in m.tests))
    print(f"without a mutant: {outcome}", flush=True)
    if outcome != "passed":
        print(tail)
        return 1
    killed = 0
    for mutant in chosen:
        start = time.monotonic()
        outcome, tail = tried(folder, mutant)
        killed += outcome == "killed"
        print(f"{outcome}: {mutant.name} ({time.monotonic() - start:.0f} s)", flush=True)
        if outcome != "killed":
            print(f"  {mutant.file}: {' '.join(mutant.tests)}\n{tail}", flush=True)
    print(f"{killed} of {len(chosen)} killed")
    return len(chosen) - killed


if __name__ == "__main__":
    sys.exit(main())
