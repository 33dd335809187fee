// Twenty tests with startOrrery(), against the installed package.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { cpSync, existsSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { startOrrery } from "orrery";

let server;
before(async () => (server = await startOrrery()));
after(() => server.stop());

/** A signed request; `link` is what is signed. */
async function send(method, path, type, link, body, more = {}) {
  const date = new Date().toUTCString();
  const text = `${method.toLowerCase()}\n${type}\n${link}\n${date.toLowerCase()}\n\n`;
  const signature = createHmac("sha256", Buffer.from(server.key, "base64")).update(text).digest("base64");
  const authorization = encodeURIComponent(`type=master&ver=1.0&sig=${signature}`);
  const headers = { authorization, "x-ms-date": date, "x-ms-version": "2020-07-15", ...more };
  const answer = await fetch(new URL(path, server.endpoint), { method, headers, body: body && JSON.stringify(body) });
  return { status: answer.status, body: await answer.json() };
}

async function isReady(endpoint) {
  return fetch(new URL("readyz", endpoint)).then((answer) => answer.ok, () => false);
}

test("a server starts in under a second", async (t) => {
  await (await startOrrery()).stop(); // The first start reads the program from the disk.
  const began = performance.now();
  const other = await startOrrery();
  const took = performance.now() - began;
  t.diagnostic(`started in ${took.toFixed(0)} ms`);
  assert.ok(await isReady(other.endpoint));
  await other.stop();
  assert.ok(took < 1000, `${took} ms`);
});

test("it is ready", async () => assert.ok(await isReady(server.endpoint)));

test("the connection string has endpoint and key", () => {
  assert.equal(server.connectionString, `AccountEndpoint=${server.endpoint};AccountKey=${server.key};`);
  assert.ok(server.endpoint.includes(`:${server.port}`));
});

test("a stopped server is gone", async () => {
  const other = await startOrrery();
  await other.stop();
  assert.ok(!(await isReady(other.endpoint)));
});

test("data of a folder outlives the server", async () => {
  const data = mkdtempSync(join(tmpdir(), "orrery-npm-"));
  for (let round = 0; round < 2; round++) {
    const other = await startOrrery({ data });
    assert.ok(await isReady(other.endpoint));
    await other.stop();
  }
  assert.ok(existsSync(join(data, "store")));
});

test("a wrong setting is one sentence", async () => {
  await assert.rejects(startOrrery({ args: ["--ranges", "0"] }), /did not start: .*'ranges' is '0'/);
});

test("a port that is taken is named", async () => {
  await assert.rejects(startOrrery({ port: server.port }), /in use/);
});

test("a program that is missing is named", async () => {
  process.env.ORRERY_BINARY = "/nowhere/orrery";
  try {
    await assert.rejects(startOrrery(), /\/nowhere\/orrery/);
  } finally {
    delete process.env.ORRERY_BINARY;
  }
});

test("a test that is killed leaves no server behind", async () => {
  const script = `import { startOrrery } from "orrery"; const s = await startOrrery();
    console.log(s.endpoint); setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  const endpoint = await new Promise((resolve) => child.stdout.once("data", (text) => resolve(String(text).trim())));
  assert.ok(await isReady(endpoint));
  child.kill("SIGKILL");
  for (let tries = 0; await isReady(endpoint); tries++) {
    assert.ok(tries < 200, "the server lives on");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
});

/** Exit code, standard output and standard error of a command. */
function run(program, args) {
  return new Promise((resolve) => execFile(program, args, (error, ...texts) => resolve([error?.code ?? 0, ...texts])));
}

test("npx runs the program with its exit code", async () => {
  const [code, version] = await run("npx", ["--no-install", "orrery", "--version"]);
  assert.equal(code, 0);
  assert.match(version, /^orrery \d+\.\d+\.\d+/);
  assert.equal((await run("npx", ["--no-install", "orrery", "--no-such-flag"]))[0], 2);
});

test("a system that is too old is named in one line", async () => {
  const modules = join(mkdtempSync(join(tmpdir(), "orrery-old-")), "node_modules");
  const platform = join(modules, "@orrery", `${process.platform}-${process.arch}`);
  cpSync(dirname(fileURLToPath(import.meta.resolve("orrery"))), join(modules, "orrery"), { recursive: true });
  mkdirSync(join(platform, "bin"), { recursive: true });
  writeFileSync(join(platform, "package.json"), JSON.stringify({ name: "@orrery/x", version: "0.0.0", glibc: "99.1" }));
  writeFileSync(join(platform, "bin", "orrery"), "");
  const [code, , said] = await run(process.execPath, [join(modules, "orrery", "bin", "orrery.js"), "--version"]);
  assert.equal(code, 1);
  assert.match(said, /^orrery: this system has glibc \d+\.\d+, and the program needs 99\.1; use the container image.*\n$/);
});

for (let number = 0; number < 9; number++) {
  test(`items are written and queried (${number})`, async () => {
    const database = `test-${number}`;
    assert.equal((await send("POST", "/dbs", "dbs", "", { id: database })).status, 201);
    const link = `dbs/${database}`;
    const definition = { id: "items", partitionKey: { paths: ["/pk"], kind: "Hash" } };
    assert.equal((await send("POST", `/${link}/colls`, "colls", link, definition)).status, 201);
    const items = `${link}/colls/items`;
    const key = { "x-ms-documentdb-partitionkey": '["a"]' };
    const item = { id: "1", pk: "a", number };
    assert.equal((await send("POST", `/${items}/docs`, "docs", items, item, key)).status, 201);
    const query = { "x-ms-documentdb-isquery": "true", "content-type": "application/query+json", ...key };
    const found = await send("POST", `/${items}/docs`, "docs", items, { query: "SELECT VALUE c.number FROM c" }, query);
    assert.deepEqual(found.body.Documents, [number]);
  });
}
