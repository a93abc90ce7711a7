"""Source for `browser_python`: an operator of hand-made plans, to test the road without a manifest.

`Handmade(body, ...)` runs `y[i] = body` over x and w (of the same shape), with scratch and `once`
passes where asked.
"""

HANDMADE = """
import asyncio, gc, math
import fusedconv
import numpy as np
from fusedconv.api import run_operator
from fusedconv.plan import Binding, Pass, Plan, Scratch
from fusedconv.prepared import prepare_operator

def shader(inputs, output, body, dtype="f32", size=64):
    names = [*inputs, output]
    declarations = "".join(
        f"@group(0) @binding({i}) var<storage, {'read_write' if n == output else 'read'}> {n}: "
        f"array<{dtype}>;" for i, n in enumerate(names)
    )
    enable = "enable f16;" if dtype == "f16" else ""
    return f'''{enable}
{declarations}
struct Params {{ count: u32, scale: f32, }}
@group(0) @binding({len(names)}) var<uniform> params: Params;
@compute @workgroup_size({size})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  let i = id.x;
  if (i >= params.count) {{ return; }}
  {output}[i] = {dtype}({body});
}}
'''

def one_pass(name, inputs, output, body, count, scale, dtype, scratch=(), once=False, size=64):
    import struct
    bindings = [
        Binding(i, n, "storage" if n == output else "read-only-storage",
                operand=None if n in scratch else n, scratch=n if n in scratch else None)
        for i, n in enumerate([*inputs, output])
    ]
    uniform = struct.pack("<If", count, scale) + bytes(8)
    bindings.append(Binding(len(bindings), "params", "uniform", uniform=uniform))
    return Pass(name, name, f"{name}.wgsl.jinja", shader(inputs, output, body, dtype, size),
                tuple(bindings), (max(1, math.ceil(count / size)), 1, 1), once)

class Handmade:
    name = "Handmade"

    def __init__(self, body="x[i] + w[i]", scale=1.0, once=False, scratch=False, size=64):
        self.body, self.scale, self.once, self.scratch = body, scale, once, scratch
        self.size = size
        self.planned = 0

    def check_weights(self, w_shape, **arguments):
        pass

    def plan(self, x_shape, w_shape, *, dtype, bias, z, device, **options):
        self.planned += 1
        count = math.prod(x_shape)
        element = {"float32": "f32", "float16": "f16"}[dtype]
        operands = {"x": tuple(x_shape), "w": tuple(w_shape)}
        make = lambda *a, **k: one_pass(*a, count, self.scale, element, size=self.size, **k)
        if self.scratch:
            nbytes = count * (4 if dtype == "float32" else 2)
            passes = (
                make("first", ["w"], "mid", "w[i] * 2", scratch=("mid",), once=self.once),
                make("second", ["x", "mid"], "y", "x[i] + mid[i]", scratch=("mid",)),
            )
            scratch = (Scratch("mid", dtype, count, nbytes, self.once),)
        else:
            passes, scratch = (make("only", ["x", "w"], "y", self.body),), ()
        return Plan("Handmade", "handmade", dtype, operands, tuple(x_shape), passes, scratch)

def run(operator, x, w, out=None, cast=False, **options):
    return run_operator(operator, x, w, None, None, out=out, cast=cast, options=options)

def prepare(operator, w, cast=False, **options):
    return prepare_operator(operator, w, None, options, cast)

async def failure(awaitable):
    try:
        await awaitable
    except fusedconv.FusedConvError as error:
        return type(error).__name__ + ": " + str(error)
    return "no error"

def ramp(*shape, start=0, dtype="float32"):
    return (np.arange(math.prod(shape)) + start).reshape(shape).astype(dtype)
"""
