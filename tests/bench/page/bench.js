// Runs the bench: for each shape every engine's convolution is checked, then all are timed in turn.
import * as gpuclock from "./gpuclock.js";
import { ours } from "./ours.js";
import { wasm, webgpu } from "./ort.js";
import { errorOf, makeProblem } from "./problem.js";
import { heater, roofline } from "./roofline.js";
import { tfjs } from "./tfjs.js";

const ENGINES = { ours, ort: webgpu, tfjs, wasm };
// Milliseconds: how long the slowest engine's calls together shall take, and all rounds of a shape.
// Waiting for the last one costs milliseconds, which many calls share.
const TOGETHER = 250, ALL_ROUNDS = 4000;
const MOST_CALLS = 500, MOST_ROUNDS = 40, MOST_TIMED = 200;
// Milliseconds of work before a timing, which raise a GPU's clocks: before one sample, before many.
const HEAT_SAMPLE = 25, HEAT_MANY = 300;

// Settings: shapes (names; all that the adapter is for), dtypes, engines, repeat, calls, software, tune.
// `report(kind, value)` is told "log" texts and every "result".
export async function bench(settings, report) {
  gpuclock.watchDevices();
  const log = (text) => report("log", text);
  const adapter = await describe(await findAdapter());
  const heat = await heater(await findAdapter());
  log(`adapter: ${Object.values(adapter.info).filter(Boolean).join(", ")}`);
  log(`peak: ${Object.entries(adapter.peak).map(([name, value]) => `${name} ${value.toPrecision(3)}`).join(", ")}`);
  const engines = [], versions = { browser: navigator.userAgent };
  for (const name of settings.engines ?? Object.keys(ENGINES)) {
    log(`starting ${name}`);
    try {
      const { version, pyodide, engines: made } = await ENGINES[name](settings);
      versions[name] = version;
      if (pyodide) versions.pyodide = pyodide;
      engines.push(...made);
    } catch (error) {
      log(`${name} does not start: ${textOf(error)}`);
      versions[name] = null;
    }
  }
  const results = [];
  for (const dtype of settings.dtypes) {
    if (dtype === "float16" && !adapter.features.includes("shader-f16")) {
      log("no float16 on this adapter");
      continue;
    }
    for (const { shape, index } of await chosenShapes(settings)) {
      const result = await benchShape(makeProblem(shape, index, dtype), engines, heat, settings, log);
      results.push(result);
      report("result", result);
    }
  }
  return { date: new Date().toISOString(), adapter, versions, settings, results };
}

async function findAdapter() {
  let adapter = null;
  for (let tries = 0; !adapter && tries < 10; tries++) {
    if (tries) await new Promise((again) => setTimeout(again, 500));
    adapter = await navigator.gpu?.requestAdapter();
  }
  if (!adapter) throw new Error("this browser offers no WebGPU adapter");
  return adapter;
}

async function describe(adapter) {
  const { vendor, architecture, device, description, subgroupMinSize, subgroupMaxSize } = adapter.info;
  return { info: { vendor, architecture, device, description }, subgroups: [subgroupMinSize, subgroupMaxSize],
    features: [...adapter.features].sort(), isolated: crossOriginIsolated, peak: await roofline(adapter) };
}

async function chosenShapes({ shapes, software }) {
  const all = await (await fetch("data/shapes.json")).json();
  return all.map((shape, index) => ({ shape, index })).filter(({ shape }) =>
    shapes ? shapes.includes(shape.name) : !software || shape.for === "any");
}

const textOf = (error) => String(error?.message ?? error).trim().split("\n").at(-1).slice(0, 300);

async function benchShape(problem, engines, heat, settings, log) {
  const { name, dtype, gflop, x4, w4, y4, stride, pad, group, transposed } = problem;
  log(`${name} ${dtype}`);
  const rows = [];
  for (const engine of engines) rows.push(await entered(engine, problem));
  await dropSlower(rows.filter((row) => row.contender));
  const able = rows.filter((row) => row.contender);
  const calls = settings.calls || (await callsTogether(able));
  const rounds = await timed(able, calls, heat, settings, log);
  for (const row of able) {
    await heat(HEAT_MANY);
    row.result.gpu = await gpuTime(row.contender, Math.min(calls, MOST_TIMED));
    await row.contender.close();
  }
  return { name, dtype, gflop, x: x4, w: w4, y: y4, stride, pad, group, transposed, calls, rounds,
    engines: rows.map((row) => row.result) };
}

// An engine with the problem open, if it can do it and its result is right.
async function entered(engine, problem) {
  const result = { name: engine.name, group: engine.group };
  let contender = null;
  try {
    contender = await engine.open(problem);
    result.error = errorOf(problem, await contender.once());
    Object.assign(result, contender.notes);
    if (!(result.error <= problem.tolerance)) {
      result.refused = `wrong by ${result.error.toExponential(1)} of the largest value`;
      await contender.close();
      contender = null;
    }
  } catch (error) {
    result.refused = textOf(error);
    contender = null;
  }
  if (!contender) return { result };
  await contender.resident(1);
  await contender.endToEnd();
  return { result, contender, once: await contender.resident(1) };
}

// Of two ways of the same engine, the clearly slower one is not timed further.
async function dropSlower(rows) {
  for (let i = 0; i < 2; i++) {
    for (const row of rows) row.once = Math.min(row.once, await row.contender.resident(1));
  }
  for (const row of rows) {
    const rival = rows.find((other) => other.result.group === row.result.group && other.once < row.once / 1.3);
    if (!rival) continue;
    row.result.refused = `${row.once.toPrecision(3)} ms where ${rival.result.name} takes ${rival.once.toPrecision(3)}`;
    await row.contender.close();
    row.contender = null;
  }
}

// So many that the slowest engine takes long enough; a wasm engine does not share its latency.
async function callsTogether(rows) {
  const within = (ms) => Math.max(1, Math.min(MOST_CALLS, Math.round(TOGETHER / Math.max(ms, 0.001))));
  const able = rows.filter((row) => row.contender.device);
  if (!able.length) return 1;
  const guess = within(Math.max(...able.map((row) => row.once)));
  let slowest = 0;
  for (const row of able) slowest = Math.max(slowest, await row.contender.resident(guess));
  return within(slowest);
}

const KINDS = ["resident", "batched", "endToEnd"];

// Rounds in which every engine is timed once, each round beginning with another.
async function timed(rows, calls, heat, { repeat }, log) {
  const samples = rows.map(() => ({ resident: [], batched: [], endToEnd: [] }));
  const begin = performance.now();
  let round = 0;
  const more = () => round < repeat || (round < MOST_ROUNDS && repeat >= 10 && performance.now() - begin < ALL_ROUNDS);
  for (; more(); round++) {
    for (const kind of KINDS) {
      for (let i = 0; i < rows.length; i++) {
        const at = (i + round) % rows.length, { contender } = rows[at];
        if (!contender[kind]) continue;
        await heat(HEAT_SAMPLE);
        const together = kind === "endToEnd" || !contender.device ? 1 : calls;
        samples[at][kind].push(await contender[kind](together));
      }
    }
  }
  rows.forEach((row, i) => {
    for (const kind of KINDS) if (samples[i][kind].length) row.result[kind] = summary(samples[i][kind]);
  });
  log(`  ${rows.map((row) => `${row.result.name} ${row.result.resident.median.toFixed(3)}`).join(", ")} ms`);
  return round;
}

function summary(values) {
  const sorted = [...values].sort((a, b) => a - b), at = (share) => {
    const place = (sorted.length - 1) * share, low = Math.floor(place);
    return sorted[low] + (sorted[Math.ceil(place)] - sorted[low]) * (place - low);
  };
  return { median: at(0.5), quartiles: [at(0.25), at(0.75)], least: sorted[0] };
}

// Medians of the GPU's own time for a call, where it can be asked.
async function gpuTime(contender, calls) {
  const { device } = contender;
  if (!gpuclock.canTime(device)) return undefined;
  const samples = [], begin = performance.now();
  let passes = 0;
  while (samples.length < 3 || (samples.length < 10 && performance.now() - begin < 500)) {
    gpuclock.start(device);
    await contender.resident(calls);
    const measured = await gpuclock.stop();
    samples.push(measured.ms / calls);
    passes = measured.passes / calls;
  }
  return { ...summary(samples), passes };
}
