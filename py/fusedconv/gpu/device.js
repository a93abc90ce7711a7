// A GPUDevice for the bridge: asked for with all that its adapter has, or adopted.
//
// The value of this file is a function that makes `open` of the bridge's maker.
((makeBridge) => {
  "use strict";
  const LIMITS = [
    "maxBufferSize", "maxStorageBufferBindingSize", "maxUniformBufferBindingSize",
    "maxStorageBuffersPerShaderStage", "maxUniformBuffersPerShaderStage", "maxBindingsPerBindGroup",
    "maxComputeWorkgroupStorageSize", "maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupSizeX",
    "maxComputeWorkgroupSizeY", "maxComputeWorkgroupSizeZ", "maxComputeWorkgroupsPerDimension",
  ];

  const failure = (kind, message, more = {}) => JSON.stringify({ kind, message, ...more });
  const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
  const plain = (object) => {
    const result = {};
    for (const key in object) {
      if (["string", "number", "boolean"].includes(typeof object[key])) result[key] = object[key];
    }
    return result;
  };

  // While the GPU process starts, the first answers may be null.
  async function requestAdapter(gpu, powerPreference) {
    for (const wait of [0, 200, 800, 2000]) {
      if (wait) await sleep(wait);
      const adapter = await gpu.requestAdapter(powerPreference ? { powerPreference } : {});
      if (adapter) return adapter;
    }
    return null;
  }

  async function requestDevice({ powerPreference, features, required }) {
    const gpu = globalThis.navigator?.gpu;
    if (!gpu) return failure("unavailable", "no-gpu", { secure: globalThis.isSecureContext ?? true });
    const adapter = await requestAdapter(gpu, powerPreference);
    if (!adapter) return failure("unavailable", "no-adapter");
    const requiredLimits = {};
    for (const name of LIMITS) {
      if (adapter.limits[name] !== undefined) requiredLimits[name] = adapter.limits[name];
    }
    const missing = required.filter((name) => !adapter.features.has(name));
    if (missing.length) return failure("unavailable", "missing-features", { detail: missing.join(", ") });
    const requiredFeatures = features.filter((name) => adapter.features.has(name));
    const device = await adapter.requestDevice({ requiredFeatures, requiredLimits });
    return { device, info: device.adapterInfo ?? adapter.info };
  }

  const describe = (device, info) => JSON.stringify({
    features: [...device.features], limits: plain(device.limits), adapterInfo: plain(info),
    subgroupMatrixConfigs: [...(info?.subgroupMatrixConfigs ?? [])].map(plain),
  });

  function bridge(device, info, owned, budget) {
    return Object.assign(makeBridge(device, owned, budget), { describe: () => describe(device, info) });
  }

  // A bridge to the device that is given, or to a new one; or the text of an error.
  async function open(optionsJson, adopted) {
    const options = JSON.parse(optionsJson);
    if (adopted) return bridge(adopted, adopted.adapterInfo, false, options.budget);
    try {
      const made = await requestDevice(options);
      if (typeof made === "string") return made;
      return bridge(made.device, made.info, true, options.budget);
    } catch (error) {
      return failure("unavailable", "refused", { detail: String(error?.message ?? error) });
    }
  }

  return open;
})
