// What came back: classes as bars, objects as a table, any other output as its first numbers.
import { WIRES, bytes, h, number, svg, table } from "./dom.js";
import { parse } from "./server.js";

const TOP = 5;
const MOST_BOXES = 20;
const LEAST_SCORE = 0.3;
const FIRST = 10;
const MOST_COMPARED = 2e6;
const LIKE_CLASSES = /prob|score|logit|softmax|class|predictions/i;

const shapeOf = (value) => {
  const shape = [];
  for (let at = value; Array.isArray(at); at = at[0]) shape.push(at.length);
  return shape;
};
const isNumbers = (value) => Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === "number");
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value) && !("b64" in value);
const inUnit = (values) => values.every((value) => value >= 0 && value <= 1.000001);

function first(value, count) {
  if (!Array.isArray(value)) return [value];
  const found = [];
  for (const item of value) {
    found.push(...first(item, count - found.length));
    if (found.length >= count) break;
  }
  return found;
}

// The outputs by name, as if the batch had its first row alone: {name: {row, shape}}; null where it is something else.
function outputsOf(body, described) {
  const single = described.length === 1 ? described[0].name : "output";
  if (isObject(body) && Array.isArray(body.predictions)) {
    const rows = body.predictions;
    const one = (row) => ({ row, shape: [rows.length, ...shapeOf(row)] });
    if (!isObject(rows[0])) return { [single]: one(rows[0]) };
    return Object.fromEntries(Object.entries(rows[0]).map(([name, row]) => [name, one(row)]));
  }
  if (isObject(body) && "outputs" in body) {
    const all = isObject(body.outputs) ? body.outputs : { [single]: body.outputs };
    return Object.fromEntries(Object.entries(all).map(([name, value]) =>
      [name, { row: Array.isArray(value) && value.length === 1 ? value[0] : value, shape: shapeOf(value) }]));
  }
  return null;
}

// Classes or objects; those of a map have a share of the picture in place of a score.
function ranked(rows) {
  const items = Array.isArray(rows) ? rows[0] : null;
  const isOne = (item) => isObject(item) && ("score" in item || "share" in item);
  return Array.isArray(items) && items.length > 0 && items.every(isOne) ? items.map((item) => ({ score: item.share, ...item })) : null;
}

function boxesOf(outputs) {
  const { detection_boxes: boxes, detection_scores: scores, detection_classes: classes, num_detections: count } = outputs;
  if (!boxes || !scores || !Array.isArray(boxes.row) || !Array.isArray(boxes.row[0])) return null;
  const among = count ? first(count.row, 1)[0] : scores.row.length;
  const items = boxes.row.slice(0, among).map((box, at) => ({ box, score: scores.row[at], class: classes ? classes.row[at] : undefined }));
  items.sort((one, other) => other.score - one.score);
  const shown = items.filter((item) => item.score >= LEAST_SCORE).slice(0, MOST_BOXES);
  return { items: shown.length ? shown : items.slice(0, TOP), of: items.length };
}

const asText = (text) => ({ kind: "text", text: text.slice(0, 2000) });

// {kind: "classes" | "boxes" | "values" | "text", ...}
export function read(text, meta) {
  let body;
  try { body = parse(text); } catch { return asText(text); }
  const parameters = meta.parameters || {};
  // The server draws objects and maps into the picture, if they are its own.
  const isDrawn = !parameters.handler && Boolean(parameters.detections || parameters.map);
  const found = parameters.detections && isObject(body) ? body.predictions?.[0] : null;
  if (Array.isArray(found) && found.every((item) => isObject(item) && "score" in item && isNumbers(item.box))) {
    return { kind: "boxes", items: found, of: found.length, isDrawn, inPicture: true };
  }
  const items = isObject(body) ? ranked(body.predictions) : null;
  if (items && items[0].box) return { kind: "boxes", items, of: items.length, isDrawn: !parameters.handler };
  if (items) return { kind: "classes", items, of: null, isDrawn, unit: inUnit(items.map((item) => item.score)) };
  const described = parameters.model_outputs || meta.outputs || [];
  const outputs = outputsOf(body, described);
  if (!outputs) return asText(text);
  const boxes = boxesOf(outputs);
  if (boxes) return { kind: "boxes", ...boxes };
  const entries = Object.entries(outputs);
  if (entries.length === 1) {
    const [name, { row }] = entries[0];
    const sum = isNumbers(row) ? row.reduce((total, value) => total + value, 0) : 0;
    const unit = isNumbers(row) && inUnit(row);
    if (isNumbers(row) && row.length > 1 && ((unit && Math.abs(sum - 1) < 0.02) || LIKE_CLASSES.test(name))) {
      const best = row.map((score, at) => ({ class: at, score })).sort((one, other) => other.score - one.score);
      return { kind: "classes", items: best.slice(0, TOP), of: row.length, unit };
    }
  }
  const typed = Object.fromEntries(described.map((output) => [output.name, output.datatype]));
  const values = entries.map(([name, { row, shape }]) => {
    const some = first(row, FIRST + 1);
    return { name, dtype: typed[name] || "", shape, first: some.slice(0, FIRST), more: some.length > FIRST };
  });
  return { kind: "values", values, isDrawn };
}

export const nameOf = (item) => item.label ?? (item.class === undefined ? "object" : `class ${item.class}`);
const score = (value, unit) => (unit ? `${(100 * value).toFixed(2)} %` : number(value));

// One line that stands for an answer, as for the table of runs.
export function headline(answer) {
  if (answer.kind === "classes") return `${nameOf(answer.items[0])}, ${score(answer.items[0].score, answer.unit)}`;
  if (answer.kind === "boxes") return `${answer.items.length || "no"} ${answer.items.length > 1 ? "objects" : "object"}`;
  if (answer.kind === "values") return answer.values.map((value) => `${value.name} [${value.shape.join(", ")}]`).join("; ");
  return answer.text.slice(0, 60);
}

function classes(answer) {
  const top = Math.max(...answer.items.map((item) => Math.abs(item.score)), 1e-30);
  const width = (value) => Math.max(0, Math.min(100, 100 * (answer.unit ? value : value / top)));
  return h("div", {}, h("ol", { class: "classes" }, ...answer.items.map((item) =>
    h("li", {}, h("b", {}, nameOf(item)), h("span", { class: "n" }, score(item.score, answer.unit)),
      svg("svg", { "aria-hidden": "true" }, svg("rect", { class: "track", width: "100%", height: "10" }),
        svg("rect", { class: "fill", width: `${width(item.score)}%`, height: "10" }))))),
  answer.of ? h("p", { class: "small" }, `The best ${answer.items.length} of ${answer.of} classes.`) : null);
}

function boxes(answer) {
  if (!answer.items.length) return h("p", { class: "small" }, "There is no object in the picture.");
  const rows = answer.items.map((item, at) => [String(at + 1), nameOf(item), number(item.score), item.box.map(number).join(", ")]);
  return h("div", {}, h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Objects" },
    table("Objects", ["No.", "Object", "Score", `Box: ${answer.inPicture ? "left, top, right, bottom" : "top, left, bottom, right"}`], rows, [2])),
  h("p", { class: "small" }, `Shown: ${answer.items.length} of ${answer.of} objects.`));
}

function values(answer) {
  const rows = answer.values.map((value) => [value.name, value.dtype, `[${value.shape.join(", ")}]`,
    h("span", { class: "mono" }, value.first.map(number).join(", ") + (value.more ? ", …" : ""))]);
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Outputs" },
    table("Outputs", ["Output", "Data type", "Shape", "First values"], rows));
}

// result: {wire, answer, requestId, sent, bytes, seconds, status}
export function card(result) {
  const { answer } = result;
  const body = answer.kind === "classes" ? classes(answer) : answer.kind === "boxes" ? boxes(answer)
    : answer.kind === "values" ? values(answer) : h("pre", { tabindex: "0", role: "group", "aria-label": "Response" }, answer.text);
  const facts = [["Request ID", h("span", { class: "mono", "data-fact": "id" }, result.requestId)], ["Sent", bytes(result.sent)], ["Received", bytes(result.bytes)]];
  return h("article", { class: `answer ${result.wire}`, "data-wire": result.wire, "aria-label": `Answer over ${WIRES[result.wire]}` }, h("h3", {}, WIRES[result.wire]), body,
    h("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
}

const numbersIn = (value) => (typeof value === "number" ? [value]
  : value !== null && typeof value === "object" ? Object.values(value).flatMap(numbersIn) : []);

// Whether both wires said the same, in words.
export function agreement(results) {
  if (results.length < 2) return null;
  if (results[0].text === results[1].text) return "Both transports gave exactly the same answer.";
  if (results[0].bytes > MOST_COMPARED) return "The answers of both transports differ.";
  const numbers = results.map((result) => numbersIn(parse(result.text)));
  if (numbers[0].length !== numbers[1].length || !numbers[0].length) return "The answers of both transports differ.";
  const most = numbers[0].reduce((worst, value, at) => Math.max(worst, Math.abs(value - numbers[1][at])), 0);
  return most === 0 ? "Both transports gave exactly the same answer." : `The answers of both transports differ by at most ${number(most)}.`;
}
