// What every test needs: clients of the server under test, a database of its own, and raw requests
// for what the SDK refuses to send. `cargo xtask conformance js` sets ORRERY_ENDPOINT and ORRERY_KEY.

import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import http from "node:http";
import https from "node:https";
import { after } from "node:test";
import { CosmosClient } from "@azure/cosmos";

export const endpoint = required("ORRERY_ENDPOINT");
export const key = required("ORRERY_KEY");

// The server makes its own certificate, which nothing on this machine trusts.
const isTls = endpoint.startsWith("https:");
const agent = isTls
  ? new https.Agent({ keepAlive: true, rejectUnauthorized: false })
  : new http.Agent({ keepAlive: true });

export function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; run \`cargo xtask conformance js\``);
  return value;
}

/** A new client; `options` replace or add to the usual ones. */
export function connect(options = {}) {
  const credential = options.resourceTokens ? {} : { key };
  const retryOptions = { maxRetryAttemptCount: 0 };
  return new CosmosClient({
    endpoint,
    // The SDK refuses plain HTTP through an agent that is not its own.
    ...(isTls && { agent }),
    ...credential,
    connectionPolicy: { retryOptions, enableBackgroundEndpointRefreshing: false },
    ...options,
  });
}

export const unique = (prefix) => `${prefix}-${randomUUID().slice(0, 8)}`;

/** A database for the tests of one file, deleted after them; `container` makes a new container. */
export async function scratch() {
  const client = connect();
  const { database } = await client.databases.create({ id: unique("js") });
  after(async () => {
    await database.delete();
    client.dispose();
  });
  const container = async (properties = {}) => {
    const definition = { id: unique("c"), partitionKey: { paths: ["/pk"] }, ...properties };
    return (await database.containers.create(definition)).container;
  };
  return { client, database, container };
}

/** The call must fail with this status, this sub-status if given, and a body that says why. */
export async function fails(call, status, substatus) {
  let error;
  try {
    await call;
  } catch (caught) {
    error = caught;
  }
  assert.ok(error, `should have failed with ${status}`);
  assert.equal(error.code, status, error.message);
  if (substatus !== undefined) assert.equal(error.substatus, substatus, error.message);
  assert.equal(typeof error.body?.code, "string", "an error body has a code");
  assert.ok(error.body.message.length > 0, "an error body has a message");
  return error;
}

/** A signed request as it is, without the SDK; gives { status, headers, body, text }. */
export function raw(method, path, { headers = {}, body, authorization } = {}) {
  const date = new Date().toUTCString();
  const all = {
    "x-ms-version": "2020-07-15",
    "x-ms-date": date,
    authorization: authorization ?? sign(method, path, date),
    ...headers,
  };
  if (all.authorization === "") delete all.authorization;
  const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  if (text !== undefined) all["content-length"] = Buffer.byteLength(text);
  const url = new URL(path, endpoint);
  return new Promise((resolve, reject) => {
    const request = (isTls ? https : http).request(url, { method, headers: all, agent }, (reply) => {
      const chunks = [];
      reply.on("data", (chunk) => chunks.push(chunk));
      reply.on("error", reject);
      reply.on("end", () => resolve(answer(reply, Buffer.concat(chunks).toString("utf8"))));
    });
    request.on("error", reject);
    request.end(text);
  });
}

function answer(reply, text) {
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    body = undefined;
  }
  return { status: reply.statusCode, headers: reply.headers, body, text };
}

function sign(method, path, date) {
  const segments = path.split("/").filter(Boolean).map(decodeURIComponent);
  const isFeed = segments.length % 2 === 1;
  const type = segments.length === 0 ? "" : segments.at(isFeed ? -1 : -2);
  const link = (isFeed ? segments.slice(0, -1) : segments).join("/");
  const text = `${method.toLowerCase()}\n${type}\n${link}\n${date.toLowerCase()}\n\n`;
  const signature = createHmac("sha256", Buffer.from(key, "base64")).update(text).digest("base64");
  return encodeURIComponent(`type=master&ver=1.0&sig=${signature}`);
}

/** Asks until the answer satisfies the test or the time is over; gives the last answer. */
export async function until(isDone, ask, seconds = 15) {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const last = await ask();
    if (isDone(last) || Date.now() > deadline) return last;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
