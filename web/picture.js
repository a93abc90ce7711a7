// The picture before and after: reading files, the two canvases, saving.
import { $ } from "./dom.js";

const compare = $("compare");
const before = $("before");
const after = $("after");

// Read a File, Blob or URL into ImageData, scaled down to `limit` pixels where it has more.
export async function readPicture(source, limit) {
  const blob = typeof source === "string" ? await download(source) : source;
  let bitmap;
  try {
    bitmap = await createImageBitmap(blob);
  } catch {
    throw new Error("This file is not a picture that the browser can read.");
  }
  const { width, height } = bitmap;
  const factor = Math.min(1, Math.sqrt(limit / (width * height)));
  const canvas = new OffscreenCanvas(Math.max(1, Math.floor(width * factor)), Math.max(1, Math.floor(height * factor)));
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  return { data: context.getImageData(0, 0, canvas.width, canvas.height), original: { width, height } };
}

async function download(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} could not be loaded (${response.status}).`);
  return response.blob();
}

export class Picture {
  #alpha = null;

  show(imageData) {
    const { width, height } = imageData;
    Object.assign(before, { width, height });
    Object.assign(after, { width: 2 * width, height: 2 * height });
    compare.style.setProperty("--aspect", width / height);
    before.getContext("2d").putImageData(imageData, 0, 0);
    this.#alpha = hasAlpha(imageData) ? doubledAlpha() : null;
    this.#state("");
  }

  begin() {
    after.getContext("2d").clearRect(0, 0, after.width, after.height);
    this.#state("working");
  }

  place({ pixels, left, top, width, height }) {
    const tile = new ImageData(pixels, width, height);
    if (this.#alpha) {
      const alpha = this.#alpha.getImageData(left, top, width, height).data;
      for (let i = 3; i < alpha.length; i += 4) tile.data[i] = alpha[i];
    }
    after.getContext("2d").putImageData(tile, left, top);
  }

  finish(complete) {
    this.#state(complete ? "done" : "");
  }

  get size() {
    return { width: after.width, height: after.height };
  }

  async save() {
    const blob = await new Promise((done) => after.toBlob(done, "image/png"));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = "upscaled.png";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  #state(name) {
    compare.classList.toggle("working", name === "working");
    compare.classList.toggle("done", name === "done");
    $("save").hidden = name !== "done";
    document.querySelector(".tag-after").hidden = name !== "done";
  }
}

function hasAlpha({ data }) {
  for (let i = 3; i < data.length; i += 4) if (data[i] !== 255) return true;
  return false;
}

// The network knows no transparency: the browser enlarges that channel.
function doubledAlpha() {
  const canvas = new OffscreenCanvas(2 * before.width, 2 * before.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.drawImage(before, 0, 0, canvas.width, canvas.height);
  return context;
}

export function wireView() {
  const slider = $("slider");
  slider.addEventListener("input", () => compare.style.setProperty("--at", `${slider.value}%`));
  for (const radio of document.querySelectorAll("[name=view]")) {
    radio.addEventListener("change", () => compare.classList.toggle("sides", radio.value === "sides"));
  }
  $("pixels").addEventListener("change", ({ target }) => compare.classList.toggle("pixels", target.checked));
}

// take(file) for what is chosen, dropped or pasted.
export function wireFiles(take) {
  const first = (list) => [...(list ?? [])].find((file) => file.type.startsWith("image/")) ?? list?.[0];
  $("file").addEventListener("change", ({ target }) => {
    if (target.files.length) take(first(target.files));
    target.value = "";
  });
  addEventListener("paste", ({ clipboardData }) => {
    if (clipboardData.files.length) take(first(clipboardData.files));
  });
  addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dragging");
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) document.body.classList.remove("dragging");
  });
  addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dragging");
    if (event.dataTransfer.files.length) take(first(event.dataTransfer.files));
  });
}
