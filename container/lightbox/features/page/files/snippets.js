// The chosen request as code. Every value is quoted for its language.
import { attributes } from "./server.js";

const python = (text) => JSON.stringify(text);  // also a literal of Python
const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const HEADER = "X-Amzn-SageMaker-Custom-Attributes";

// In a loop over both wires where both are chosen; `body` gets the custom attributes as an expression.
function perWire(chosen, body) {
  if (chosen.wire !== "both") return body(python(attributes(chosen, chosen.wire)), "");
  const prefix = attributes(chosen, "");
  return `for transport in ("grpc", "rest"):\n${body(`${python(prefix)} + transport`, "    ")}`;
}
const indented = (text, by) => text.split("\n").map((line) => (line ? by + line : line)).join("\n");

function curl(chosen, origin) {
  const command = (custom) => `curl -sS --fail-with-body -D - -H 'Content-Type: application/x-image' \\
  -H ${custom} \\
  --data-binary ${shell(`@${chosen.file}`)} ${shell(`${origin}/invocations`)}`;
  if (chosen.wire !== "both") return command(shell(`${HEADER}: ${attributes(chosen, chosen.wire)}`));
  return `for transport in grpc rest; do\n${command(`${shell(`${HEADER}: ${attributes(chosen, "")}`)}"$transport"`)}\ndone`;
}

function boto3(chosen, origin) {
  return `import json

import boto3

runtime = boto3.client(
    "sagemaker-runtime",
    endpoint_url=${python(origin)},
    region_name="us-east-1",
    aws_access_key_id="none",
    aws_secret_access_key="none",
)
with open(${python(chosen.file)}, "rb") as file:
    image = file.read()
${perWire(chosen, (custom, by) => indented(`answer = runtime.invoke_endpoint(
    EndpointName="any",
    ContentType="application/x-image",
    CustomAttributes=${custom},
    Body=image,
)
print(answer["ResponseMetadata"]["HTTPHeaders"]["server-timing"])
print(json.dumps(json.load(answer["Body"])))`, by))}`;
}

function requests(chosen, origin) {
  return `import requests

with open(${python(chosen.file)}, "rb") as file:
    image = file.read()
${perWire(chosen, (custom, by) => indented(`answer = requests.post(
    ${python(`${origin}/invocations`)},
    data=image,
    headers={
        "Content-Type": "application/x-image",
        "${HEADER}": ${custom},
    },
    timeout=60,
)
if not answer.ok:
    raise SystemExit(f"{answer.status_code}: {answer.text}")
print(answer.headers["Server-Timing"])
print(answer.text)`, by))}`;
}

function tritonclient(chosen, origin) {
  const ssl = origin.startsWith("https:");
  const version = chosen.version ? `,\n    model_version=${python(chosen.version)}` : "";
  return `import numpy as np
import tritonclient.http as triton

client = triton.InferenceServerClient(${python(origin.replace(/^https?:\/\//, ""))}${ssl ? ", ssl=True" : ""})
with open(${python(chosen.file)}, "rb") as file:
    image = file.read()
tensor = triton.InferInput(${python(chosen.input || "image")}, [1], "BYTES")
tensor.set_data_from_numpy(np.array([image], object))
${perWire(chosen, (custom, by) => indented(`answer = client.infer(
    ${python(chosen.model)},
    [tensor]${version},
    headers={"${HEADER}": ${custom}},
)
for output in answer.get_response()["outputs"]:
    print(output["name"], output["datatype"], output["shape"])
    print(answer.as_numpy(output["name"]))`, by))}`;
}

const MAKERS = { curl, boto3, tritonclient, requests };

// chosen: {model, version, signature, wire: "inside" | "local" | "grpc" | "rest" | "both", file, input}
export const snippet = (tool, chosen, origin) => MAKERS[tool](chosen, origin);
