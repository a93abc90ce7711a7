// The table of layers: what ran as what, filled in as it runs.
import { $, duration, element, shape, workgroups } from "./dom.js";

export class LayerTable {
  #body = $("layers").tBodies[0];
  #foot = $("layers").tFoot;
  #rows = [];
  #placeholder = this.#body.rows[0];

  // explain(layer) is called when a variant is chosen in the table.
  constructor(explain) {
    this.explain = explain;
  }

  clear() {
    this.#rows = [];
    this.#body.replaceChildren(this.#placeholder);
    this.#foot.replaceChildren();
  }

  // A layer of a tile has run; times of several tiles add up.
  add({ layer, tiles }) {
    const row = (this.#rows[layer.index] ??= this.#newRow(layer));
    for (const other of this.#rows) other?.line.classList.remove("now");
    row.line.classList.add("now");
    row.layer = layer;
    row.ms += layer.ms;
    row.cells.forEach((cell, i) => cell.replaceChildren(this.#content(row)[i]));
    const longest = Math.max(...this.#rows.map((r) => r?.ms ?? 0));
    for (const r of this.#rows) if (r) this.#drawTime(r, longest);
    this.tiles = tiles;
  }

  finish() {
    for (const row of this.#rows) row?.line.classList.remove("now");
    const total = this.#rows.reduce((sum, row) => sum + row.ms, 0);
    const label = this.tiles > 1 ? `All layers, ${this.tiles} tiles` : "All layers";
    this.#foot.replaceChildren(
      element("tr", {}, element("td", { colspan: 5 }, label), element("td", { class: "time" }, element("span", { class: "number" }, duration(total)))),
    );
  }

  get report() {
    return this.#rows.map(({ layer, ms }) => ({
      name: layer.name, variant: layer.variant, x_shape: layer.x_shape, y_shape: layer.y_shape,
      dispatch: layer.dispatch, ms,
    }));
  }

  #newRow(layer) {
    const cells = Array.from({ length: 5 }, () => element("td"));
    const time = element("td", { class: "time" });
    const line = element("tr", {}, ...cells, time);
    this.#placeholder.remove();
    this.#body.append(line);
    return { layer, cells, time, line, ms: 0 };
  }

  #content({ layer }) {
    const why = element("button", { type: "button", title: "Why this variant?" }, layer.variant);
    why.addEventListener("click", () => this.explain(layer));
    return [layer.name, why, shape(layer.x_shape), shape(layer.y_shape), workgroups(layer.dispatch)];
  }

  #drawTime(row, longest) {
    const bar = element("span", { class: "bar", style: `width: ${(5 * row.ms) / longest}rem` });
    row.time.replaceChildren(element("span", { class: "number" }, duration(row.ms)), bar);
  }
}
