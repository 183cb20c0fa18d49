// What the page asks of the server, and errors in words.

const WORDS = {
  image_undecodable: "The server cannot read this file as an image. Choose a JPEG, PNG, WebP, AVIF, GIF, BMP or TIFF file.",
  too_large: "The image is larger than this server accepts. Send a smaller one, or raise the limit that the server names.",
  model_not_found: "The server does not have this model or version any more. Reload the list of models and choose again.",
  input_mismatch: "The model does not take an image like this.",
  malformed_body: "The server could not read the request.",
  queue_full: "The server is busy. Try again in a moment.",
  starting: "The server is starting. Try again in a moment.",
  stopping: "The server is stopping.",
  worker_lost: "The process that had this request ended. Try again.",
  model_loading: "The model is being loaded or unloaded. Try again in a moment.",
  unavailable: "The server cannot answer at this moment. Try again.",
  deadline_exceeded: "The server did not finish in time.",
  model_failed: "The model failed on this image.",
  handler_failed: "The code that was deployed with the model failed.",
  no_room: "The server has no room for this request.",
};

export class Failure extends Error {
  // words: the page's; message: the server's own sentence; status 0 where nothing came back.
  constructor(words, message = "", status = 0, code = "", requestId = "") {
    super(message);
    Object.assign(this, { words, status, code, requestId });
  }
}

async function ask(path, options = {}) {
  let answer, bytes;
  const began = performance.now();
  try {
    answer = await fetch(path, options);
    bytes = new Uint8Array(await answer.arrayBuffer());
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(`The server does not answer at ${location.origin}. Check that it still runs, then try again.`);
  }
  const seconds = (performance.now() - began) / 1000;
  const text = new TextDecoder().decode(bytes);
  const requestId = answer.headers.get("X-Amzn-RequestId") || "";
  if (!answer.ok) {
    let body = {};
    try { body = JSON.parse(text); } catch { /* a proxy's page, not the server's own error */ }
    const code = body.code || "";
    const words = WORDS[code] || "The server refused the request.";
    throw new Failure(words, body.error || text.slice(0, 300), answer.status, code, body.request_id || requestId);
  }
  return { text, bytes: bytes.length, seconds, requestId, status: answer.status, timing: answer.headers.get("Server-Timing") || "" };
}

// JSON with the NaN and Infinity that models may answer.
export function parse(text) {
  try { return JSON.parse(text); } catch {
    const token = /"(?:[^"\\]|\\.)*"|NaN|Infinity/g;
    return JSON.parse(text.replace(token, (found) => (found === "NaN" ? "null" : found === "Infinity" ? "1e999" : found)));
  }
}

export async function start() { return parse((await ask("/ui/start.json")).text); }

export async function models() { return parse((await ask("/v2/repository/index", { method: "POST" })).text); }

export async function describe(model, version = "") {
  const path = `/v2/models/${encodeURIComponent(model)}${version ? `/versions/${version}` : ""}`;
  return parse((await ask(path)).text);
}

export async function health() {
  try {
    return (await fetch("/ping", { cache: "no-store" })).ok ? "ready" : "not ready";
  } catch { return "away"; }
}

// The header that chooses model, version, signature and wire.
export function attributes({ model, version, signature }, wire) {
  const pairs = [`tfs-model-name=${model}`];
  if (version) pairs.push(`tfs-model-version=${version}`);
  if (signature) pairs.push(`tfs-signature-name=${signature}`);
  pairs.push(`tfs-transport=${wire}`);
  return pairs.join(",");
}

const headers = (chosen, wire, Accept) =>
  ({ "Content-Type": "application/x-image", Accept, "X-Amzn-SageMaker-Custom-Attributes": attributes(chosen, wire) });

export function invoke(file, chosen, wire, signal) {
  return ask("/invocations", { method: "POST", headers: headers(chosen, wire, "application/json"), body: file, signal });
}

// The picture with the answer drawn into it; null where the server draws none.
export async function drawn(file, chosen, wire) {
  try {
    const answer = await fetch("/invocations", { method: "POST", headers: headers(chosen, wire, "image/jpeg"), body: file });
    return answer.ok ? await answer.blob() : null;
  } catch { return null; }
}
