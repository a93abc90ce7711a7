// One convolution of the bench: its operands, and whether a result is right.

const CHECKED = 4096;
const DENSE = 3e7;
// Of the largest value. Engines may add f16 in f16, which costs them 1e-3 to 2e-2.
const TOLERANCE = { float32: 1e-4, float16: 5e-2 };

// Uniform in -1..1, the same for the same seed.
function uniform(count, seed, scale, Kind) {
  const values = new Kind(count);
  let state = seed >>> 0;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x45d9f3b);
    mixed = (mixed ^ (mixed >>> 16)) >>> 0;
    values[i] = (mixed / 2 ** 31 - 1) * scale;
  }
  return values;
}

export const product = (sizes) => sizes.reduce((a, b) => a * b, 1);
// 1-D as 2-D of height 1.
const flat = (sizes) => (sizes.length === 3 ? [sizes[0], sizes[1], 1, sizes[2]] : sizes);

export function makeProblem(shape, index, dtype) {
  const Kind = dtype === "float16" ? Float16Array : Float32Array;
  const { x: xShape, w: wShape, stride, pad, group, transposed = false, output_padding: extra = 0 } = shape;
  const rank = xShape.length - 2;
  const x4 = flat(xShape), w4 = flat(wShape);
  const strides = rank === 1 ? [1, stride] : [stride, stride];
  const pads = rank === 1 ? [0, pad] : [pad, pad];
  const extras = rank === 1 ? [0, extra] : [extra, extra];
  const direct = (axis) => Math.floor((x4[2 + axis] + 2 * pads[axis] - w4[2 + axis]) / strides[axis]) + 1;
  const spread = (axis) => (x4[2 + axis] - 1) * strides[axis] + w4[2 + axis] + extras[axis] - 2 * pads[axis];
  const size = transposed ? spread : direct, channels = transposed ? wShape[1] * group : wShape[0];
  const y4 = [x4[0], channels, size(0), size(1)];
  // Inputs times what each reaches, or outputs times what each reads.
  const macs = product(transposed ? x4 : y4) * product(wShape.slice(1));
  const taps = macs / product(y4);
  return {
    ...shape, transposed, output_padding: extra, index, dtype, Kind, xShape, wShape, x4, w4, y4, strides2: strides, pads2: pads,
    yShape: rank === 1 ? [y4[0], y4[1], y4[3]] : y4,
    gflop: (2 * macs) / 1e9, macs, tolerance: TOLERANCE[dtype],
    x: uniform(product(xShape), 1 + index, 1, Kind),
    w: uniform(product(wShape), 101 + index, Math.sqrt(3 / taps), Kind),
    bias: uniform(channels, 201 + index, 0.5, Kind),
  };
}

// One output in float64.
function exact(problem, ...at) {
  return Math.max(problem.transposed ? spreadSum(problem, ...at) : sumOf(problem, ...at), 0);
}

function spreadSum({ x, w, bias, x4, w4, y4, strides2, pads2, group }, n, m, oh, ow) {
  const [, C, H, W] = x4, [, outputs, KH, KW] = w4;
  const each = C / group, from = Math.floor(m / outputs) * each;
  let sum = bias[m];
  for (let kh = 0; kh < KH; kh++) {
    const ih = (oh + pads2[0] - kh) / strides2[0];
    if (!Number.isInteger(ih) || ih < 0 || ih >= H) continue;
    for (let kw = 0; kw < KW; kw++) {
      const iw = (ow + pads2[1] - kw) / strides2[1];
      if (!Number.isInteger(iw) || iw < 0 || iw >= W) continue;
      for (let c = from; c < from + each; c++) {
        sum += x[((n * C + c) * H + ih) * W + iw] * w[((c * outputs + (m % outputs)) * KH + kh) * KW + kw];
      }
    }
  }
  return sum;
}

function sumOf(problem, n, m, oh, ow) {
  const { x, w, bias, x4, w4, y4, strides2, pads2, group } = problem;
  const [, , H, W] = x4, [, channels, KH, KW] = w4;
  const from = Math.floor(m / (y4[1] / group)) * channels;
  let sum = bias[m];
  for (let c = 0; c < channels; c++) {
    const image = ((n * x4[1] + from + c) * H), kernel = (m * channels + c) * KH;
    for (let kh = 0; kh < KH; kh++) {
      const ih = oh * strides2[0] - pads2[0] + kh;
      if (ih < 0 || ih >= H) continue;
      for (let kw = 0; kw < KW; kw++) {
        const iw = ow * strides2[1] - pads2[1] + kw;
        if (iw >= 0 && iw < W) sum += x[(image + ih) * W + iw] * w[(kernel + kh) * KW + kw];
      }
    }
  }
  return sum;
}

// Every position where that is quick, else many and all corners. The reference is kept.
function reference(problem) {
  if (problem.reference) return problem.reference;
  const [N, M, OH, OW] = problem.y4, count = N * M * OH * OW, at = [];
  if (problem.macs <= DENSE) {
    for (let i = 0; i < count; i++) at.push(i);
  } else {
    const stride = Math.max(1, Math.floor(count / CHECKED)) | 1;
    for (let i = 0; i < count; i += stride) at.push(i);
    for (const n of [0, N - 1]) for (const m of [0, 1, M - 1])
      for (const oh of [0, OH - 1]) for (const ow of [0, OW - 1]) at.push(((n * M + m) * OH + oh) * OW + ow);
  }
  const values = at.map((i) => exact(problem, Math.floor(i / (OW * OH * M)), Math.floor(i / (OW * OH)) % M,
    Math.floor(i / OW) % OH, i % OW));
  problem.reference = { at, values, scale: values.reduce((a, b) => Math.max(a, b), 0) };
  return problem.reference;
}

// How far a result is from float64, and from the first right one at every position, both as shares
// of the largest value.
export function errorOf(problem, y) {
  const { at, values, scale } = reference(problem);
  if (y.length !== product(problem.y4)) return Infinity;
  let worst = 0;
  const note = (difference) => { worst = difference <= worst ? worst : Number.isNaN(difference) ? Infinity : difference; };
  at.forEach((i, k) => note(Math.abs(y[i] - values[k])));
  if (problem.agreed) for (let i = 0; i < y.length; i++) note(Math.abs(y[i] - problem.agreed[i]));
  const error = worst / scale;
  if (error <= problem.tolerance) problem.agreed ??= y;
  return error;
}
