// The module worker: Python and the GPU live here, so that the page stays responsive.
// Messages in: { id, type, ... }; out: { id, ... } as the answer, and events without an id.
import { boot, readable } from "./boot.js";
import { numbers } from "./halves.js";

const SOURCES = ["app.py", "trial.py", "superres/__init__.py", "superres/keras.py", "superres/graph.py",
  "superres/lowering.py", "superres/network.py", "superres/tiles.py"];

let app, upscaler;

async function fetched(path, as) {
  const response = await fetch(new URL(path, import.meta.url));
  if (!response.ok) throw new Error(`${path} could not be loaded (${response.status})`);
  return response[as]();
}

async function loadModel() {
  const text = await fetched("model/model.json", "text");
  const paths = JSON.parse(text).weightsManifest.flatMap((group) => group.paths);
  const shards = await Promise.all(paths.map((path) => fetched(`model/${path}`, "arrayBuffer")));
  return { text, shards: shards.map((shard) => new Uint8Array(shard)) };
}

async function start({ numpy }) {
  const stage = (text, done) => postMessage({ type: "stage", text, done });
  const sources = Promise.all(SOURCES.map((path) => fetched(path, "text")));
  const model = loadModel();
  for (const promise of [sources, model]) promise.catch(() => {});
  const { pyodide, hasNumpy } = await boot({ numpy, stage });
  stage("Reading the page's Python", 0.8);
  const folder = "/home/pyodide/page";
  pyodide.FS.mkdirTree(`${folder}/superres`);
  for (const [i, text] of (await sources).entries()) {
    pyodide.FS.writeFile(`${folder}/${SOURCES[i]}`, text);
  }
  pyodide.runPython(`import sys; sys.path.insert(0, "${folder}")`);
  app = pyodide.pyimport("app");
  stage("Asking for the GPU", 0.85);
  const facts = { ...JSON.parse(await app.start()), numpy: hasNumpy, pyodide: pyodide.version };
  if (facts.available) {
    stage("Reading the network", 0.9);
    const { text, shards } = await model;
    upscaler = await app.load(text, shards);
  }
  stage("Ready", 1);
  return facts;
}

// (1, 3, H, W) floats -> the RGBA bytes of the part that is shown; rounding clamps to 0..255.
function toPixels(floats, { width, height, skip_left, skip_top, row, rows }) {
  const pixels = new Uint8ClampedArray(4 * width * height).fill(255);
  for (let channel = 0; channel < 3; channel++) {
    for (let y = 0; y < height; y++) {
      let from = (channel * rows + skip_top + y) * row + skip_left;
      const end = from + width;
      for (let to = 4 * y * width + channel; from < end; from++, to += 4) pixels[to] = floats[from];
    }
  }
  return pixels;
}

function deliver(result, text) {
  const event = JSON.parse(text);
  if (!result) {
    postMessage(event);
    return;
  }
  event.pixels = toPixels(numbers(result), event);
  postMessage(event, [event.pixels.buffer]);
}

const HANDLERS = {
  start,
  explain: ({ request }) => JSON.parse(app.explain(JSON.stringify(request))),
  plan: ({ request }) => JSON.parse(app.plan(JSON.stringify(request))),
  measure: async ({ request }) => JSON.parse(await app.measure(JSON.stringify(request))),
  upscale: async ({ pixels, width, height, dtype }) =>
    JSON.parse(await app.run(upscaler, pixels, width, height, dtype, deliver)),
  stop: () => upscaler?.stop(),
};

addEventListener("message", async ({ data }) => {
  try {
    postMessage({ id: data.id, value: await HANDLERS[data.type](data) });
  } catch (error) {
    console.info(error);
    postMessage({ id: data.id, error: readable(error) });
  }
});
