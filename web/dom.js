// Small helpers for making elements.

export const $ = (id) => document.getElementById(id);

// element("td", { class: "x" }, "text", child, ...)
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export const shape = (dims) => dims.join("×");

export function duration(ms) {
  if (ms < 10) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${ms.toFixed(ms < 100 ? 1 : 0)} ms`;
  return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

export const workgroups = (passes) => passes.map((dims) => dims.join("×")).join(" then ") || "none";
