// The bench's page: by a button, or with ?report at once, sending all it finds to its server.
import { bench } from "./bench.js";

const query = new URLSearchParams(location.search);
const list = (name) => query.get(name)?.split(",");
const settings = {
  shapes: list("shapes"),
  dtypes: list("dtypes") ?? ["float32", "float16"],
  engines: list("engines"),
  repeat: Number(query.get("repeat") ?? 10),
  calls: Number(query.get("calls") ?? 0),
  software: query.has("software"),
  tune: query.has("tune"),
};
const element = (id) => document.getElementById(id);

// Reports arrive in order, since each waits for the one before.
let sending = Promise.resolve();
function send(kind, value) {
  if (!query.has("report")) return sending;
  sending = sending.then(() => fetch(`/report/${kind}`, { method: "POST", body: JSON.stringify(value) }));
  return sending;
}

const COLUMNS = [["resident", "resident"], ["batched", "one encoder"], ["endToEnd", "end to end"], ["gpu", "GPU"]];

function show(result) {
  const table = element("table");
  if (!table.rows.length) {
    const head = table.insertRow();
    for (const text of ["shape", "engine", ...COLUMNS.map(([, title]) => title), "GFLOP/s", "error"]) {
      head.append(Object.assign(document.createElement("th"), { textContent: text }));
    }
  }
  for (const engine of result.engines) {
    const row = table.insertRow(), cell = (text) => { row.insertCell().textContent = text; };
    cell(`${result.name} ${result.dtype}`);
    cell(`${engine.name}${engine.variant ? ` (${engine.variant})` : ""}`);
    if (engine.refused) {
      cell(engine.refused);
      row.lastChild.colSpan = COLUMNS.length + 2;
      continue;
    }
    for (const [kind] of COLUMNS) cell(engine[kind]?.median.toPrecision(3) ?? "");
    cell((1000 * result.gflop / (engine.gpu ?? engine.resident).median).toPrecision(3));
    cell(engine.error.toExponential(1));
  }
}

async function start() {
  element("start").disabled = true;
  try {
    const found = await bench(settings, (kind, value) => {
      if (kind === "log") element("log").append(`${value}\n`);
      else show(value);
      send(kind, value);
    });
    await send("done", found);
  } catch (error) {
    element("log").append(`${error?.stack ?? error}\n`);
    await send("failed", String(error?.message ?? error));
  }
}

element("start").addEventListener("click", start);
if (query.has("report")) start();
