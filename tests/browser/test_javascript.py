"""web/fusedconv.js: the operator called from JavaScript."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

CALL = """
async (source) => {
  const { getKernel } = await import("/fusedconv.js");
  return await new (Object.getPrototypeOf(async () => {}).constructor)("getKernel", source)(getKernel);
}
"""


@pytest.fixture(scope="module")
def blank(browser: Browser, site: str) -> Iterator[Page]:
    """One page for all, so that one Pyodide is started."""
    page = browser.new_page()
    page.goto(f"{site}/tests/blank.html")
    yield page
    page.close()


@pytest.fixture
def run(blank: Page) -> Any:
    """Run JavaScript with `getKernel`; the value that it returns."""
    return lambda source: blank.evaluate(CALL, source)


def test_a_kernel_runs_as_the_published_package_documents(run: Any) -> None:
    found = run(
        """
        const kernel = await getKernel("webgpu-kernels/com.microsoft.FusedConv", { version: 1 });
        const { y } = await kernel({
          x: { data: new Float32Array([10, 20, 30, 40, 50, 60, 70, 80, 90]), shape: [1, 1, 3, 3] },
          w: { data: new Float32Array([1, 2, 3, 4]), shape: [1, 1, 2, 2] },
          attributes: { activation: "Clip", activation_params: [400, 600] },
        });
        return [y.data.constructor.name, Array.from(y.data), y.shape, y.dtype];
        """
    )
    assert found == ["Float32Array", [400, 470, 600, 600], [1, 1, 2, 2], "float32"]


def test_bias_and_residual_have_the_published_names(run: Any) -> None:
    assert run(
        """
        const kernel = await getKernel("com.microsoft.FusedConv");
        const tensor = (data, shape) => ({ data: new Float32Array(data), shape });
        const { y } = await kernel({
          x: tensor([1, 2, 3, 4], [1, 1, 4]), w: tensor([1, -1], [2, 1, 1]),
          bias: tensor([10, 20], [2]), zResidual: tensor([0, 0, 0, 1, 0, 0, 0, 2], [1, 2, 4]),
        });
        return Array.from(y.data);
        """
    ) == [11, 12, 13, 15, 19, 18, 17, 18]


def test_a_transposed_convolution_is_a_kernel_too(run: Any) -> None:
    assert run(
        """
        const kernel = await getKernel("ai.onnx.ConvTranspose");
        const tensor = (data, shape) => ({ data: new Float32Array(data), shape });
        const { y } = await kernel({
          x: tensor([1, 2], [1, 1, 2]), w: tensor([1, 10], [1, 1, 2]), attributes: { strides: [2] },
        });
        return Array.from(y.data);
        """
    ) == [1, 10, 2, 20]


def test_halves_are_float16_arrays(run: Any, facts: dict[str, Any]) -> None:
    if "shader-f16" not in facts["features"]:
        pytest.skip(f"no shader-f16 on {facts['adapter']}")
    assert run(
        """
        const kernel = await getKernel("com.microsoft.FusedConv");
        const tensor = (data, shape) => ({ data: new Float16Array(data), shape });
        const { y } = await kernel({ x: tensor([1, 2, 3], [1, 1, 3]), w: tensor([0.5], [1, 1, 1]) });
        return [y.data.constructor.name, Array.from(y.data), y.dtype];
        """
    ) == ["Float16Array", [0.5, 1, 1.5], "float16"]


def test_errors_are_named_as_in_python(run: Any) -> None:
    name, message = run(
        """
        const kernel = await getKernel("com.microsoft.FusedConv");
        const tensor = (shape) => ({ data: new Float32Array(shape.reduce((a, b) => a * b)), shape });
        try {
          await kernel({ x: tensor([1, 3, 4, 4]), w: tensor([2, 4, 1, 1]) });
        } catch (error) {
          return [error.name, error.message];
        }
        """
    )
    assert name == "RequestError"
    assert "w" in message
    assert "Traceback" not in message


def test_an_unknown_kernel_is_refused(run: Any) -> None:
    assert "com.microsoft.FusedConv, ai.onnx.ConvTranspose" in run(
        "try { await getKernel('com.microsoft.Nothing'); } catch (error) { return error.message; }"
    )


# Last: the page's Python keeps this device, which has no optional features.
def test_buffers_of_the_pages_own_device_go_in_and_out(run: Any) -> None:
    assert run(
        """
        const adapter = await navigator.gpu.requestAdapter();
        const device = await adapter.requestDevice();
        const kernel = await getKernel("com.microsoft.FusedConv", { device });
        const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
        const buffer = (values) => {
          const made = device.createBuffer({ size: 4 * values.length, usage });
          device.queue.writeBuffer(made, 0, new Float32Array(values));
          return made;
        };
        const x = { data: buffer([1, 2, 3]), shape: [1, 1, 3], dtype: "float32" };
        const w = { data: new Float32Array([3]), shape: [1, 1, 1] };
        const { y } = await kernel({ x, w }, { resident: true });
        const again = await kernel({ x: { ...y, data: y.buffer }, w });
        y.free();
        return Array.from(again.y.data);
        """
    ) == [9, 18, 27]
