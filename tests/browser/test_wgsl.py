"""Every variant x activation x dtype compiles in the browser without a warning; bias and residual
are variants of their own. What cannot be compiled, for a feature that is missing, is listed."""

from __future__ import annotations

import re
from typing import Any

from fusedconv.devices import DEVICES
from fusedconv.operator import Operator, builtin
from fusedconv.request import ACTIVATIONS

from ..contract.variant_cases import variant_cases

ENABLE = re.compile(r"^enable ([\w, ]+);", re.MULTILINE)
# The device feature behind each WGSL extension.
FEATURES = {
    "f16": "shader-f16",
    "subgroups": "subgroups",
    "chromium_experimental_subgroup_matrix": "chromium-experimental-subgroup-matrix",
    "subgroup_size_control": "subgroup-size-control",
}

COMPILE = """async (texts) => {
  const adapter = await navigator.gpu.requestAdapter();
  const wanted = %s;
  const device = await adapter.requestDevice({
    requiredFeatures: wanted.filter((f) => adapter.features.has(f)),
  });
  device.pushErrorScope("validation");
  const modules = texts.map((code) => device.createShaderModule({ code }));
  const faults = [];
  for (const [i, module] of modules.entries()) {
    const { messages } = await module.getCompilationInfo();
    for (const m of messages) faults.push([i, m.type, m.lineNum, m.message]);
  }
  const error = await device.popErrorScope();
  if (error && !faults.length) faults.push([-1, "error", 0, error.message]);
  const features = [...device.features];
  device.destroy();
  return { faults, features };
}"""


def rendered(operator: Operator) -> dict[str, str]:
    """WGSL -> what it is, over devices that together can run every variant."""
    texts: dict[str, str] = {}
    combinations = [("desktop", "float32"), ("apple", "float32"), ("apple", "float16"),
                    ("h200", "float32"), ("h200", "float16")]  # fmt: skip
    for device, dtype in combinations:
        for variant, cases in variant_cases(operator, DEVICES[device], dtype, 1200).items():
            for case in cases[:1]:
                for activation, count in {None: None, **ACTIVATIONS}.items():
                    arguments = {**case.arguments, "activation": activation}
                    arguments["activation_params"] = [0.25, 0.75][: count[1]] if count else None
                    request = operator.request(case.x, case.w, **arguments)
                    plan = operator.plan_request(
                        request, DEVICES[device], True, case.tunables, variant
                    )
                    for item in plan.passes:
                        texts.setdefault(item.wgsl, f"{variant} {dtype} {activation} {item.id}")
    return texts


def test_every_shader_compiles(page: Any, site: str) -> None:
    page.goto(f"{site}/")
    texts = rendered(builtin("fusedconv"))
    enabled = {
        wgsl: {
            FEATURES[name.strip()] for group in ENABLE.findall(wgsl) for name in group.split(",")
        }
        for wgsl in texts
    }
    has = set(page.evaluate(COMPILE % list(FEATURES.values()), [])["features"])
    able = [wgsl for wgsl in texts if enabled[wgsl] <= has]
    unable = {wgsl for wgsl in texts if not enabled[wgsl] <= has}
    faults = []
    for start in range(0, len(able), 200):
        chunk = able[start : start + 200]
        answer = page.evaluate(COMPILE % list(FEATURES.values()), chunk)
        faults += [(texts[chunk[i]], *rest) for i, *rest in answer["faults"]]
    print(f"{len(able)} shaders compiled; {len(unable)} not, for want of", end=" ")
    print(sorted(set().union(*(enabled[wgsl] - has for wgsl in unable))) or "nothing")
    assert not faults, faults[:5]
    # Nothing was left out but for a feature: every variant that enables no missing one compiled.
    assert all(enabled[wgsl] - has for wgsl in unable)
    assert len(able) > 500
