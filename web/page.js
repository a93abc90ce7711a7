// The page: wires the picture, the layers and the operator panel to the worker.
import { Client } from "./client.js";
import { $, duration, element, shape } from "./dom.js";
import { LayerTable } from "./layers.js";
import { OperatorPanel } from "./operator.js";
import { Picture, readPicture, wireFiles, wireView } from "./picture.js";
import { summary, verdictTable } from "./verdicts.js";

const SAMPLE = "sample.png";
// Pixels of a picture that are upscaled at most: a graphics card needs about a second for these.
const LIMIT = 4_000_000;
const SOFTWARE_LIMIT = 200_000;

const query = new URLSearchParams(location.search);
const picture = new Picture();
const layers = new LayerTable(explainLayer);
let facts = null;
let current = null; // ImageData
let running = false;

const client = new Client({
  stage: ({ text, done }) => status(`${text} …`, done),
  compiling: ({ done, of }) => status(`Compiling shaders: ${done} of ${of}`, 0.2 * (done / of)),
  layer: showLayer,
  tile: (tile) => picture.place(tile),
});
const operator = new OperatorPanel(client);

function status(text, done) {
  $("status").textContent = text;
  document.querySelector(".status").classList.toggle("idle", done === undefined);
  if (done !== undefined) $("progress").value = done;
}

function fail(error) {
  $("error").textContent = error?.message ?? "";
  $("error").hidden = !error;
}

function showLayer(event) {
  const { layer, layers: count, tile, tiles } = event;
  layers.add(event);
  const where = tiles > 1 ? `tile ${tile + 1} of ${tiles}, ` : "";
  const done = (tile + (layer.index + 1) / count) / tiles;
  status(`Running: ${where}layer ${layer.index + 1} of ${count}, ${layer.name}`, 0.2 + 0.8 * done);
}

async function explainLayer(layer) {
  const explanation = await client.call("explain", { request: layer.request });
  $("why-title").textContent = `Why ${layer.variant}?`;
  $("why-body").replaceChildren(
    element("p", { class: "hint" }, `${layer.name}: input ${shape(layer.request.x_shape)}, ` +
      `weights ${shape(layer.request.w_shape)}. ${summary(explanation)}`),
    element("div", { class: "scroll" }, verdictTable(explanation)),
  );
  $("why").showModal();
}

async function choose(source) {
  if (running) return;
  fail(null);
  try {
    const limit = facts?.software ? SOFTWARE_LIMIT : LIMIT;
    const { data, original } = await readPicture(source, limit);
    current = data;
    picture.show(data);
    layers.clear();
    $("caption").textContent = describe(data, original);
    $("go").disabled = !facts?.available;
  } catch (error) {
    fail(error);
  }
}

function describe(data, original) {
  const result = `${data.width} × ${data.height} becomes ${2 * data.width} × ${2 * data.height}.`;
  if (data.width === original.width) return result;
  const why = facts?.software ? "would take long without a GPU" : "is more than this page takes at once";
  return `${original.width} × ${original.height} ${why}, so the picture was made smaller first. ${result}`;
}

async function upscale() {
  const { width, height } = current;
  const started = performance.now();
  running = true;
  fail(null);
  layers.clear();
  picture.begin();
  buttons();
  const report = { ok: false, adapter: facts.info, software: facts.software, numpy: facts.numpy,
    python: facts.python, version: facts.version };
  try {
    const { seconds, peak_memory } = await client.call("upscale", {
      pixels: current.data, width, height, dtype: $("half").checked ? "float16" : "float32",
    });
    layers.finish();
    picture.finish(true);
    const all = (performance.now() - started) / 1000;
    status(`${width} × ${height} became ${2 * width} × ${2 * height} in ${duration(1000 * seconds)}` +
      ` (${duration(1000 * all)} with compiling the shaders), with at most ${(peak_memory / 2 ** 20).toFixed(1)} MiB of GPU memory.`);
    Object.assign(report, { ok: true, ...picture.size, seconds, peak_memory, seconds_since_load: performance.now() / 1000, seconds_with_compiling: all, layers: layers.report });
  } catch (error) {
    picture.finish(false);
    status(error.kind === "StoppedError" ? "Stopped." : "The picture was not upscaled.");
    if (error.kind !== "StoppedError") fail(error);
    report.error = error.message;
  }
  running = false;
  buttons();
  return report;
}

function buttons() {
  $("stop").hidden = !running;
  $("go").disabled = running || !current || !facts?.available;
  $("sample").disabled = $("file").disabled = running;
  $("run").disabled = running || !facts?.available;
}

function showFacts() {
  const chip = (name, value, kind = "") =>
    element("li", kind ? { class: kind } : {}, `${name} `, element("b", {}, value));
  const chips = [];
  if (facts.available) {
    const { vendor, architecture, device, description } = facts.info;
    const adapter = [description || device, vendor, architecture].filter(Boolean).slice(0, 2).join(" ");
    chips.push(chip(facts.software ? "Software adapter" : "GPU", adapter || "unnamed", facts.software ? "warn" : ""));
  } else {
    chips.push(chip("GPU", "none", "warn"));
  }
  chips.push(chip("Python", `${facts.python} in Pyodide ${facts.pyodide}`));
  chips.push(chip("NumPy", facts.numpy ? "yes" : "no, and not needed"));
  $("chips").replaceChildren(...chips);
  $("software").hidden = !facts.software;
  $("half").parentElement.hidden = !facts.available || !facts.features.includes("shader-f16");
}

function withoutWebGPU(reason) {
  $("no-webgpu").hidden = false;
  $("no-webgpu-reason").textContent = reason;
  $("upscale").hidden = true;
}

function wireTheme() {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try {
    chosen = localStorage.getItem("theme");
  } catch {
    // Storage is closed to this page; the theme then follows the system.
  }
  const apply = () => (root.dataset.theme = chosen ?? (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", apply);
  $("theme").addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("theme", chosen);
    } catch {
      // As above.
    }
    apply();
  });
  apply();
}

async function main() {
  wireTheme();
  wireView();
  wireFiles(choose);
  $("go").addEventListener("click", upscale);
  $("stop").addEventListener("click", () => client.call("stop"));
  $("sample").addEventListener("click", () => choose(SAMPLE));
  $("save").addEventListener("click", () => picture.save());
  if (!navigator.gpu) withoutWebGPU(noGpuReason());
  const first = choose(query.get("image") ?? SAMPLE);
  const report = { ok: false };
  try {
    facts = await client.call("start", { numpy: query.get("numpy") !== "0" });
    window.fusedconvFacts = facts;
    await first;
    showFacts();
    if (!facts.available) withoutWebGPU(facts.reason);
    status(facts.available ? "Ready." : "");
    buttons();
    operator.show();
    if (!facts.available) report.error = facts.reason;
    else if (query.has("auto")) Object.assign(report, await upscale());
  } catch (error) {
    status("This page could not start.");
    fail(error);
    report.error = error.message;
  }
  if (query.has("auto")) window.fusedconvReport = report;
}

function noGpuReason() {
  if (!isSecureContext) return "This page was opened over plain http; WebGPU needs https, or localhost.";
  return "The browser has no navigator.gpu: it is too old, or WebGPU is turned off in it.";
}

main();
