// GPU time of any engine's work, by timestamp queries on the compute passes that it makes.
//
// `watchDevices()` before any engine asks for its device; then between `start(device)` and
// `await stop()` every compute pass of that device is timed.

const MOST = 2048;
const deviceOf = new WeakMap();
let clock = null;

export function watchDevices() {
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = function (descriptor = {}) {
    const features = new Set(descriptor.requiredFeatures ?? []);
    if (this.features.has("timestamp-query")) features.add("timestamp-query");
    return requestDevice.call(this, { ...descriptor, requiredFeatures: [...features] });
  };
  const { createCommandEncoder } = GPUDevice.prototype;
  GPUDevice.prototype.createCommandEncoder = function (...descriptor) {
    const encoder = createCommandEncoder.apply(this, descriptor);
    deviceOf.set(encoder, this);
    return encoder;
  };
  const { beginComputePass } = GPUCommandEncoder.prototype;
  GPUCommandEncoder.prototype.beginComputePass = function (descriptor) {
    if (!clock || deviceOf.get(this) !== clock.device || clock.count >= MOST) {
      return beginComputePass.call(this, descriptor);
    }
    const at = 2 * clock.count;
    clock.count += 1;
    const timestampWrites = { querySet: clock.queries, beginningOfPassWriteIndex: at,
      endOfPassWriteIndex: at + 1 };
    return beginComputePass.call(this, { ...descriptor, timestampWrites });
  };
}

export const canTime = (device) => device?.features.has("timestamp-query") ?? false;

export function start(device) {
  clock = { device, count: 0, queries: device.createQuerySet({ type: "timestamp", count: 2 * MOST }) };
}

// Milliseconds that the passes took, added up, and how many there were.
export async function stop() {
  const { device, count, queries } = clock;
  clock = null;
  const size = Math.max(16 * count, 16);
  const resolved = device.createBuffer({ size, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC });
  const read = device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  const encoder = device.createCommandEncoder();
  if (count) encoder.resolveQuerySet(queries, 0, 2 * count, resolved, 0);
  encoder.copyBufferToBuffer(resolved, 0, read, 0, size);
  device.queue.submit([encoder.finish()]);
  await read.mapAsync(GPUMapMode.READ);
  const ticks = new BigInt64Array(read.getMappedRange());
  let total = 0;
  for (let i = 0; i < count; i++) total += Number(ticks[2 * i + 1] - ticks[2 * i]) / 1e6;
  for (const item of [queries, resolved, read]) item.destroy();
  return { ms: total, passes: count };
}
