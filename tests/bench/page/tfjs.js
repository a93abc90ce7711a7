// TensorFlow.js with its WebGPU backend: NHWC, float32.

const SCRIPTS = ["/peers/tfjs/tf.min.js", "/peers/tfjs-webgpu/tf-backend-webgpu.min.js"];

function script(src) {
  return new Promise((done, failed) => {
    const element = Object.assign(document.createElement("script"), { src, onload: done, onerror: failed });
    document.head.append(element);
  });
}

export async function tfjs() {
  for (const src of SCRIPTS) await script(src);
  const { tf } = globalThis;
  if (!(await tf.setBackend("webgpu"))) throw new Error("no WebGPU backend");
  await tf.ready();
  return { version: tf.version.tfjs, engines: [{ name: "TensorFlow.js", group: "tfjs", open }] };
}

// Moves axis 1 of four to the end.
function channelsLast(values, [N, C, H, W], Kind) {
  const moved = new Kind(values.length), area = H * W;
  for (let n = 0; n < N; n++) for (let c = 0; c < C; c++) for (let i = 0; i < area; i++) {
    moved[(n * area + i) * C + c] = values[(n * C + c) * area + i];
  }
  return moved;
}

function channelsFirst(values, [N, C, H, W]) {
  const moved = new Float32Array(values.length), area = H * W;
  for (let n = 0; n < N; n++) for (let c = 0; c < C; c++) for (let i = 0; i < area; i++) {
    moved[(n * C + c) * area + i] = values[(n * area + i) * C + c];
  }
  return moved;
}

// (M, C, KH, KW) to (KH, KW, C, M), or for depthwise (KH, KW, M, 1). A transposed one's (C, M, KH, KW)
// becomes (KH, KW, M, C), which is the same move.
function filterOf({ w, w4: [M, C, KH, KW], group }) {
  const moved = new Float32Array(w.length), area = KH * KW;
  for (let m = 0; m < M; m++) for (let c = 0; c < C; c++) for (let k = 0; k < area; k++) {
    moved[(k * C + c) * M + m] = w[(m * C + c) * area + k];
  }
  return { data: moved, shape: group > 1 ? [KH, KW, M, 1] : [KH, KW, C, M] };
}

function padOf({ pads2: [h, w] }) {
  return h === w ? h : [[0, 0], [h, h], [w, w], [0, 0]];
}

async function open(problem) {
  const { tf } = globalThis, { dtype, group, transposed, x4, w4, y4 } = problem;
  if (dtype !== "float32") throw new Error("no float16");
  if (group > 1 && (w4[1] > 1 || w4[0] !== group || transposed)) throw new Error("no groups");
  const backend = tf.backend(), { device } = backend;
  const nhwc = [x4[0], x4[2], x4[3], x4[1]];
  const data = channelsLast(problem.x, x4, Float32Array), filter = filterOf(problem);
  const x = tf.tensor4d(data, nhwc), w = tf.tensor4d(filter.data, filter.shape), bias = tf.tensor1d(problem.bias);
  const convolve = group > 1 ? tf.fused.depthwiseConv2d : tf.fused.conv2d;
  const pad = padOf(problem);
  const nhwcOut = [y4[0], y4[2], y4[3], y4[1]];
  // There is no fused transposed convolution.
  const spread = (input) => tf.tidy(() =>
    tf.relu(tf.add(tf.conv2dTranspose(input, w, nhwcOut, problem.strides2, pad), bias)));
  const apply = transposed ? spread : (input) => convolve({ x: input, filter: w, strides: problem.strides2,
    pad, bias, activation: "relu" });
  const finish = async () => {
    backend.endComputePassEncoder();
    // It submits by itself after some dispatches, and then has no encoder.
    if (backend.commandEncoder) backend.submitQueue();
    await device.queue.onSubmittedWorkDone();
  };
  await apply(x).data();
  return {
    device,
    async once() {
      const y = apply(x), values = await y.data();
      y.dispose();
      return channelsFirst(values, y4);
    },
    async resident(n) {
      const start = performance.now();
      for (let i = 0; i < n; i++) apply(x).dispose();
      await finish();
      return (performance.now() - start) / n;
    },
    async endToEnd() {
      const start = performance.now();
      const input = tf.tensor4d(data, nhwc), y = apply(input);
      await y.data();
      input.dispose();
      y.dispose();
      return performance.now() - start;
    },
    close() {
      for (const tensor of [x, w, bias]) tensor.dispose();
    },
  };
}
