// Small helpers to make elements. The page's policy refuses inline styles, so bars are SVG.

function made(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const $ = (id) => document.getElementById(id);
export const h = (name, attributes = {}, ...children) => made(document.createElement(name), attributes, children);
export const svg = (name, attributes = {}, ...children) =>
  made(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

export const WIRES = { inside: "Inside", local: "Local", grpc: "gRPC", rest: "REST" };
export const ms = (value) => `${value.toFixed(value < 10 ? 2 : 1)} ms`;
export const bytes = (count) => `${count.toLocaleString("en")} ${count === 1 ? "byte" : "bytes"}`;
export const number = (value) => (typeof value === "number" ? String(Number(value.toPrecision(6))) : String(value));

export function table(caption, head, rows, numeric = []) {
  const cell = (kind, content, column) => h(kind, { class: numeric.includes(column) ? "n" : undefined, scope: kind === "th" ? "col" : undefined }, content);
  return h("table", {}, h("caption", { class: "hidden" }, caption),
    h("thead", {}, h("tr", {}, ...head.map((content, column) => cell("th", content, column)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((content, column) => cell("td", content, column))))));
}
