// The panel for a convolution of one's own: which variant, why, how fast, how exact.
import { $, duration, element, shape, workgroups } from "./dom.js";
import { summary, verdictTable } from "./verdicts.js";

const ACTIVATIONS = ["", "Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Clip",
  "QuickGelu", "Elu", "Gelu", "FastGelu", "Softplus", "ThresholdedRelu", "Erf"];

// name: x, w, strides, pads, group, output_padding for a transposed one
const PRESETS = {
  "3×3": ["1,64,56,56", "64,64,3,3", "", "1,1,1,1", ""],
  "Stem 7×7": ["1,3,224,224", "64,3,7,7", "2,2", "3,3,3,3", ""],
  "1×1": ["1,64,56,56", "256,64,1,1", "", "", ""],
  "Deep 3×3": ["1,512,7,7", "512,512,3,3", "", "1,1,1,1", ""],
  "Depthwise": ["1,96,56,56", "96,1,3,3", "", "1,1,1,1", "96"],
  "Large depthwise": ["1,128,28,28", "128,1,7,7", "", "3,3,3,3", "128"],
  "1-D": ["1,80,1500", "384,80,3", "", "1,1", ""],
  "3-D": ["1,8,16,16,16", "16,8,3,3,3", "", "1,1,1,1,1,1", ""],
  "Transposed 4×4": ["1,64,56,56", "64,32,4,4", "2,2", "1,1,1,1", "", ""],
  "Transposed 5×5": ["1,32,64,64", "32,3,5,5", "2,2", "2,2,2,2", "", "1,1"],
};

const form = $("request");
const field = (name) => form.elements[name];

export class OperatorPanel {
  #client;
  #timer;
  #asked = 0;

  constructor(client) {
    this.#client = client;
    field("activation").append(...ACTIVATIONS.map((name) => element("option", { value: name }, name || "none")));
    for (const [name, values] of Object.entries(PRESETS)) {
      $("presets").append(element("button", { type: "button", onclick: () => this.#fill(values) }, name));
    }
    form.addEventListener("input", ({ target }) => {
      if (target !== field("variant")) field("variant").value = "";
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.show(), 200);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#run();
    });
  }

  #fill(values) {
    const names = ["x_shape", "w_shape", "strides", "pads", "group", "output_padding"];
    names.forEach((name, i) => (field(name).value = values[i] ?? ""));
    field("transposed").value = values.length > 5 ? "1" : "";
    field("dilations").value = field("variant").value = "";
    this.show();
  }

  // Say what the request in the form would run.
  async show() {
    const asked = ++this.#asked;
    field("output_padding").parentElement.hidden = field("transposed").value !== "1";
    $("measured").replaceChildren();
    try {
      const request = readForm();
      const { variant, ...free } = request;
      const explanation = await this.#client.call("explain", { request: free });
      if (asked !== this.#asked) return;
      this.#showVerdicts(explanation, variant);
      const plan = await this.#client.call("plan", { request });
      if (asked === this.#asked) showPlan(plan);
    } catch (error) {
      if (asked !== this.#asked) return;
      $("answer").replaceChildren(element("p", { class: "error" }, error.message));
      $("wgsl").lastElementChild.replaceChildren();
    }
  }

  #showVerdicts(explanation, pinned) {
    $("verdicts").lastElementChild.replaceChildren(verdictTable(explanation));
    $("verdicts").firstElementChild.textContent = `Every variant, and why: ${summary(explanation)}`;
    const runnable = explanation.variants.filter((v) => v.status !== "refused");
    const options = runnable.map((v) => element("option", { value: v.id }, v.id));
    field("variant").replaceChildren(element("option", { value: "" }, "the best one"), ...options);
    field("variant").value = runnable.some((v) => v.id === pinned) ? pinned : "";
  }

  async #run() {
    const button = $("run");
    button.disabled = true;
    $("measured").replaceChildren(element("p", { class: "hint" }, "Running on the GPU."));
    try {
      const result = await this.#client.call("measure", { request: readForm() });
      $("measured").replaceChildren(measured(result));
    } catch (error) {
      $("measured").replaceChildren(element("p", { class: "error" }, error.message));
    } finally {
      button.disabled = false;
    }
  }
}

function readForm() {
  const request = { x_shape: numbers("x_shape"), w_shape: numbers("w_shape"), dtype: field("dtype").value };
  const transposed = field("transposed").value === "1";
  if (transposed) request.transposed = true;
  const lists = ["strides", "pads", "dilations", "activation_params", ...(transposed ? ["output_padding"] : [])];
  for (const name of lists) {
    if (field(name).value.trim()) request[name] = numbers(name);
  }
  if (field("group").value.trim()) [request.group] = numbers("group");
  for (const name of ["bias", "z"]) request[name] = field(name).checked;
  for (const name of ["activation", "variant"]) if (field(name).value) request[name] = field(name).value;
  return request;
}

function numbers(name) {
  const texts = field(name).value.split(/[\s,×x]+/).filter(Boolean);
  const values = texts.map(Number);
  if (!texts.length || values.some(Number.isNaN)) {
    throw new Error(`${name}: write numbers with commas between them, such as 1,64,56,56`);
  }
  return values;
}

function list(pairs) {
  return element("dl", {}, ...pairs.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

function showPlan({ variant, output_shape, passes, scratch }) {
  const pairs = [
    ["Output", shape(output_shape)],
    ["Passes", passes.map((pass) => pass.id).join(", then ") || "none: the output is empty"],
    ["Workgroups", workgroups(passes.map((pass) => pass.dispatch))],
    ["Scratch memory", scratch ? `${(scratch / 2 ** 20).toFixed(1)} MiB` : "none"],
  ];
  $("answer").replaceChildren(element("p", { class: "pick" }, variant), list(pairs));
  $("wgsl").lastElementChild.replaceChildren(...passes.flatMap((pass) => [
    element("p", { class: "hint" }, `${pass.id}, from ${pass.template}`), element("pre", { tabindex: 0 }, pass.wgsl),
  ]));
}

function measured(result) {
  const rate = (2 * result.multiplications) / result.best_ms / 1e6;
  const pairs = [
    ["Best of", `${result.runs} warm runs, operands on the GPU; median ${duration(result.median_ms)}`],
    ["Rate", rate >= 1000 ? `${(rate / 1000).toFixed(2)} TFLOP/s` : `${rate.toFixed(2)} GFLOP/s`],
    ["Against float64", result.unchecked
      ? `not compared: ${result.unchecked}`
      : `differs by at most ${result.max_error.toExponential(1)}, where the values reach ${result.largest.toPrecision(3)}`],
  ];
  return element("div", {}, element("p", { class: "big", style: "margin: 0 0 .4rem" }, duration(result.best_ms)), list(pairs));
}
