// The page: choices, runs, and what is shown of them.
import { agreement, card, headline, read } from "./answers.js";
import { $, WIRES, bytes, h, ms, table } from "./dom.js";
import * as server from "./server.js";
import { snippet } from "./snippets.js";
import { bars, inWords, parseTiming, quartiles, spread, spreadWords } from "./timing.js";

const TIMES = 20;
const MOST_RUNS = 30;
const state = { file: null, name: "", url: "", start: { wires: [], max_body_mb: 0 }, meta: {}, runs: [], abort: null, tab: "curl", loads: 0 };

const chosen = () => ({ model: $("model").value, version: $("version").value, signature: $("signature").value });
const wire = () => document.querySelector("input[name=wire]:checked")?.value || state.start.wires[0];
const wires = () => (wire() === "both" ? ["grpc", "rest"] : [wire()]);
const say = (text) => { $("status").textContent = text; };

function showError(failure) {
  if (!(failure instanceof server.Failure)) throw failure;
  const parts = [h("h3", {}, failure.words)];
  if (failure.message) parts.push(h("p", {}, "The server's answer: ", h("q", { "data-fact": "message" }, failure.message)));
  const status = failure.status ? `Status ${failure.status}${failure.code ? `, ${failure.code}` : ""}` : "";
  if (status) parts.push(h("p", { class: "small" }, status));
  if (failure.requestId) parts.push(h("p", { class: "small" }, "Request ID: ", h("span", { class: "mono", "data-fact": "id" }, failure.requestId)));
  $("error").replaceChildren(...parts);
  say("");
}

async function checkHealth() {
  const found = await server.health();
  const words = { ready: "Server is ready", "not ready": "Server is not ready", away: "Server does not answer" };
  $("health").textContent = words[found];
  $("health").className = `pill ${found === "ready" ? "good" : "bad"}`;
}

// Image

function choose(file, name, drawn) {
  state.file = file;
  state.name = name || file.name || "image.png";
  document.querySelectorAll("[data-sample]").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.sample === state.name && !file.name)));
  $("image-facts").textContent = `${state.name}, ${bytes(file.size)}`;
  delete $("stage").dataset.ready;
  show(file, drawn).then(() => { if (state.file === file) $("stage").dataset.ready = state.name; });
  clearResults();
  writeSnippet();
}

// Show the chosen file, or the picture of it with the answer, which the server has drawn.
async function show(file, drawn = null) {
  const shown = drawn || file;
  state.shown = shown;
  if (state.url) URL.revokeObjectURL(state.url);
  state.url = URL.createObjectURL(shown);
  const image = h("img", { alt: `The chosen image, ${state.name}` });
  $("stage").classList.remove("empty", "pixels");
  $("stage").replaceChildren(h("figure", {}, image));
  const isThere = await new Promise((done) => {
    image.addEventListener("load", () => done(true));
    image.addEventListener("error", () => done(false));
    image.src = state.url;
  });
  if (state.shown !== shown) return;  // another one was chosen
  if (!isThere) {
    $("stage").replaceChildren(h("p", {}, "This browser cannot show the file as an image. The server may still read it."));
    $("stage").classList.add("empty");
    return;
  }
  $("stage").classList.toggle("pixels", image.naturalWidth <= 64);
  if (!drawn) $("image-facts").textContent = `${state.name}, ${image.naturalWidth} × ${image.naturalHeight} pixels, ${bytes(file.size)}`;
}

function clearResults() {
  $("error").replaceChildren();
  $("answers").replaceChildren();
  $("time").hidden = $("spread").hidden = true;
  say("");
}

async function chooseSample(name) {
  try {
    const answer = await fetch(`/ui/samples/${name}`);
    choose(await answer.blob(), name);
  } catch { return showError(new server.Failure(`The sample ${name} could not be loaded: the server does not answer.`)); }
  return runOnce();
}

// Model

async function loadModels() {
  const before = $("model").value;
  const found = await server.models();
  $("model").replaceChildren(...found.map(({ name, state: is }) => h("option", { value: name }, is === "READY" ? name : `${name} (${is.toLowerCase()})`)));
  const names = found.map(({ name }) => name);
  const first = [before, state.start.default_model].find((name) => names.includes(name));
  if (first) $("model").value = first;
  if (!names.length) {
    $("model-facts").replaceChildren();
    throw new server.Failure("The server has no model yet. In multi-model mode load one with POST /models, then reload the list.");
  }
  await describe(true);
}

const shape = (tensor) => `${tensor.name} ${tensor.datatype} [${tensor.shape.join(", ")}]`;

async function describe(isOtherModel) {
  const load = ++state.loads;
  const model = $("model").value;
  state.meta = {};
  $("model-facts").replaceChildren();
  if (isOtherModel) {
    $("version").replaceChildren(h("option", { value: "" }, "Newest"));
    $("signature").replaceChildren(h("option", { value: "" }, "Default"));
  }
  let meta;
  try {
    meta = await server.describe(model, $("version").value);
  } catch (failure) {
    if (load !== state.loads) return;
    throw failure;
  }
  if (load !== state.loads) return;
  state.meta = meta;
  const { versions = meta.versions, engines = {}, handler, weights } = meta.parameters || {};
  if (isOtherModel) $("version").append(...versions.map((number) => h("option", { value: number }, number)));
  const kept = $("signature").value;
  const signatures = Object.entries(engines);
  $("signature").replaceChildren(h("option", { value: "" }, "Default"), ...signatures.map(([name, { engine }]) => h("option", { value: name }, `${name} (${engine})`)));
  if (kept in engines) $("signature").value = kept;
  $("signature-field").hidden = signatures.length < 2;
  const names = [...new Set(signatures.map(([, { engine }]) => engine))];
  const reason = signatures.length === 1 ? signatures[0][1].reason : "";
  const facts = [["Version", meta.versions.join(", ")], ["Inputs", meta.inputs.map(shape).join("; ")], ["Outputs", meta.outputs.map(shape).join("; ")]];
  if (meta.platform) facts.push(["Format", meta.platform]);
  if (names.length) facts.push(["Engine", names.join(", ") + (reason ? ` (${reason})` : "")]);
  if (weights) facts.push(["Weights", weights]);
  if (handler) facts.push(["Handler", handler.join(", ")]);
  $("model-facts").replaceChildren(...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
  writeSnippet();
}

function attempt(work) {
  state.described = tryTo(work);
}

async function tryTo(work) {
  try {
    $("error").replaceChildren();
    await work();
  } catch (failure) { showError(failure); checkHealth(); }
}

// Runs

async function once(name, signal, request = chosen()) {
  const { file } = state;
  const limit = state.start.max_body_mb;
  if (limit && file.size > limit * 1048576) {
    throw new server.Failure(`${state.name} has ${bytes(file.size)}, and this server accepts at most ${limit} MiB (LIGHTBOX_MAX_BODY_MB). Choose a smaller image.`);
  }
  const found = await server.invoke(file, request, name, signal);
  return { ...found, wire: name, sent: file.size, timing: { wire: name, seconds: found.seconds, ...parseTiming(found.timing) }, answer: read(found.text, state.meta) };
}

function showRun(run) {
  $("error").replaceChildren();
  const { results, same } = run;
  $("answers").replaceChildren(...results.map(card), ...(same ? [h("p", { class: "small", id: "agreement" }, same)] : []));
  const timings = results.map(({ timing }) => timing);
  $("time").hidden = false;
  $("difference").textContent = (run.series ? "The last of these runs: " : "") + inWords(timings);
  $("bars").replaceChildren(...bars(timings));
  $("spread").hidden = !run.series;
  $("one-run").hidden = Boolean(run.series);
  if (run.series) {
    $("spread-words").textContent = spreadWords(run.series);
    $("spread-drawing").replaceChildren(...spread(run.series));
  }
}

function keep(run) {
  state.runs = [run, ...state.runs].slice(0, MOST_RUNS);
  const rows = state.runs.flatMap((entry) => entry.results.map((result, at) => {
    const totals = entry.series?.find((series) => series.wire === result.wire)?.totals;
    const total = totals ? `${ms(quartiles(totals)[2])} (median of ${totals.length})` : ms(result.timing.total);
    const show = h("button", { type: "button", class: "plain", "aria-label": `Show the run of ${entry.time} again` }, "Show");
    show.addEventListener("click", () => {
      choose(entry.file, entry.name, entry.drawn);
      showRun(entry);
      say(`This is the run of ${entry.time}.`);
    });
    return [at ? "" : entry.time, entry.name, `${entry.model} ${entry.version}`, WIRES[result.wire], headline(result.answer), total,
      result.sent.toLocaleString("en"), result.bytes.toLocaleString("en"), h("span", { class: "mono" }, result.requestId), at ? "" : show];
  }));
  $("runs").replaceChildren(table("Last runs", ["Time", "Image", "Model and version", "Transport", "Answer", "Total", "Sent", "Received", "Request ID", "Again"], rows, [5, 6, 7]));
}

async function perform(work) {
  if (!state.file) return say("Choose an image first.");
  if (!$("model").value) return say("Choose a model first.");
  state.abort = new AbortController();
  $("run").disabled = $("repeat").disabled = true;
  $("stop").hidden = false;
  $("error").replaceChildren();
  try {
    await state.described;
    await work(state.abort.signal);
  } catch (failure) {
    if (failure.name === "AbortError") say("Stopped.");
    else {
      clearResults();
      showError(failure);
    }
  } finally {
    $("run").disabled = $("repeat").disabled = false;
    $("stop").hidden = true;
    checkHealth();
  }
}

async function finished(results, series) {
  const { file } = state;
  const seen = results.find(({ answer }) => answer.isDrawn);
  const drawn = seen ? await server.drawn(file, chosen(), seen.wire) : null;
  if (file === state.file && (drawn || state.shown !== file)) await show(file, drawn);
  const { model, version } = chosen();
  const same = agreement(results);
  results.forEach((result) => { delete result.text; });  // responses may have megabytes, and runs are kept
  const run = { results, same, series, model, version: version || state.meta.versions?.[0] || "", name: state.name, file: state.file, drawn,
    time: new Date().toLocaleTimeString("en-GB") };
  showRun(run);
  $("answers").scrollIntoView({ block: "nearest" });
  keep(run);
  return results.map((result) => `${WIRES[result.wire]}: ${headline(result.answer)}, ${ms(result.timing.total)}`).join(". ");
}

const runOnce = () => perform(async (signal) => {
  say("Running");
  const results = [];
  for (const name of wires()) results.push(await once(name, signal));
  say(`${await finished(results)}.`);
});

// The wires in turns, so that both see the same load of the machine.
const runMany = () => perform(async (signal) => {
  const series = wires().map((name) => ({ wire: name, totals: [] }));
  let results;
  for (let run = 1; run <= TIMES; run += 1) {
    if (run % 5 === 1) say(`Run ${run} of ${TIMES}`);
    results = [];
    for (const one of series) {
      const result = await once(one.wire, signal);
      one.totals.push(result.timing.total);
      results.push(result);
    }
  }
  await finished(results, series);
  say(spreadWords(series));
});

// Snippets

function writeSnippet() {
  const request = { ...chosen(), wire: wire(), file: state.name || "image.jpg", input: state.meta.inputs?.[0]?.name };
  $("code").textContent = snippet(state.tab, request, location.origin);
  const isSample = document.querySelector("[data-sample][aria-pressed=true]");
  const note = [`The file ${request.file} is looked for in the current folder.`];
  $("snippet-note").replaceChildren(note[0], ...(isSample ? [" ", h("a", { href: `/ui/samples/${request.file}`, download: request.file }, "Download it")] : []));
}

function selectTab(tab, focus) {
  document.querySelectorAll("[role=tab]").forEach((each) => {
    const isIt = each === tab;
    each.setAttribute("aria-selected", String(isIt));
    each.tabIndex = isIt ? 0 : -1;
  });
  if (focus) tab.focus();
  state.tab = tab.id.slice("tab-".length);
  $("snippet").setAttribute("aria-labelledby", tab.id);
  writeSnippet();
}

async function copy() {
  const text = $("code").textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // without https browsers give no clipboard: select the text and let the browser copy it
    getSelection().selectAllChildren($("code"));
    if (!document.execCommand("copy")) return say("The browser did not copy. The snippet is selected: press Ctrl+C.");
  }
  $("copy").textContent = "Copied";
  setTimeout(() => { $("copy").textContent = "Copy"; }, 2000);
  return say("The snippet is in the clipboard.");
}

// Events

$("form").addEventListener("submit", (event) => { event.preventDefault(); runOnce(); });
$("repeat").addEventListener("click", runMany);
$("stop").addEventListener("click", () => state.abort?.abort());
$("copy").addEventListener("click", copy);
$("reload").addEventListener("click", () => attempt(async () => { await loadModels(); say("The list of models is up to date."); }));
const other = (isOtherModel) => () => {
  clearResults();
  if (state.file && state.shown !== state.file) show(state.file);
  attempt(() => describe(isOtherModel));
};
$("model").addEventListener("change", other(true));
$("version").addEventListener("change", other(false));
$("signature").addEventListener("change", () => { clearResults(); writeSnippet(); });
document.querySelectorAll("input[name=wire]").forEach((radio) => radio.addEventListener("change", writeSnippet));
document.querySelectorAll("[data-sample]").forEach((button) => button.addEventListener("click", () => chooseSample(button.dataset.sample)));
$("file").addEventListener("change", () => { if ($("file").files[0]) choose($("file").files[0]); $("file").value = ""; });
document.addEventListener("paste", (event) => {
  const file = [...event.clipboardData.files][0];
  if (file) choose(file);
  else if (![...event.clipboardData.types].includes("text/plain")) say("There is no image in the clipboard.");
});
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    $("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files[0]) choose(event.dataTransfer.files[0]);
  });
}
const tabs = [...document.querySelectorAll("[role=tab]")];
tabs.forEach((tab, at) => {
  tab.addEventListener("click", () => selectTab(tab));
  tab.addEventListener("keydown", (event) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    if (to !== undefined) { event.preventDefault(); selectTab(tabs.at(to % tabs.length), true); }
  });
});

async function begin() {
  checkHealth();
  state.start = await server.start();
  $("openapi").hidden = !state.start.features.includes("openapi");
  $("metrics").hidden = !state.start.metrics;
  for (const radio of document.querySelectorAll("input[name=wire]")) {
    const needed = radio.value === "both" ? ["grpc", "rest"] : [radio.value];
    radio.parentElement.hidden = ["inside", "local"].includes(radio.value) && !state.start.wires.includes(radio.value); // of some starts
    radio.disabled = !needed.every((name) => state.start.wires.includes(name));
    radio.checked = radio.value === state.start.wires[0];
  }
  const off = ["grpc", "rest"].filter((name) => !state.start.wires.includes(name));
  $("wire-note").textContent = off.length ? `${off.map((name) => WIRES[name]).join(", ")} is off in this start: see LIGHTBOX_TRANSPORT.` : "";
  await loadModels();
}

attempt(async () => {
  try { await begin(); } finally { document.body.dataset.ready = "true"; }
});
