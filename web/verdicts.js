// The table of verdicts: every variant, and what became of it for one request.
import { element } from "./dom.js";

const WORDS = {
  chosen: "chosen", eligible: "eligible", demoted: "demoted", superseded: "superseded", refused: "no",
};

export function verdictTable({ variants }) {
  const rows = variants.map(({ id, status, priority, extension, reason }) =>
    element("tr", { class: status },
      element("td", { class: "mark" }, WORDS[status]),
      element("td", {}, element("code", {}, id), extension ? " +" : ""),
      element("td", {}, String(priority)),
      element("td", {}, reason)));
  const head = ["", "Variant", "Priority", "Reason"].map((text) => element("th", { scope: "col" }, text));
  return element("table", { class: "verdicts" },
    element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
}

export function summary({ chosen, variants }) {
  const count = (status) => variants.filter((v) => v.status === status).length;
  const others = count("eligible") + count("demoted") + count("superseded");
  return `${chosen ?? "No variant"} of ${variants.length} variants; ` +
    `${others} more could run, ${count("refused")} could not.`;
}
