// Starts a server for tests. It ends with this process, however that ends: it stops when its standard
// input does.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createInterface } from "node:readline";
import { findProgram } from "./program.js";

const START_MS_MAX = 30_000;
const STOP_MS_MAX = 15_000;

export async function startOrrery({ port = 0, data, args = [] } = {}) {
  const program = findProgram();
  const key = randomBytes(64).toString("base64");
  // Settings that this machine has for its own server are not meant for this one.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("ORRERY_")));
  const where = data === undefined ? ["--memory"] : ["--data", data];
  const quiet = ["--log-format", "json", "--log", "error"];
  const line = ["serve", "--stop-at-eof", "--listen", `127.0.0.1:${port}`, ...quiet, ...where, ...args];
  const child = spawn(program, line, { env: { ...env, ORRERY_KEY: key }, stdio: "pipe" });
  const ended = new Promise((resolve) => child.once("close", resolve));
  const { endpoints } = await announcement(program, child);
  const endpoint = endpoints.find((url) => url.startsWith("http:")) ?? endpoints[0];
  // A test that has ended need not wait for the server.
  child.unref();
  for (const stream of [child.stdin, child.stdout, child.stderr]) stream.unref?.();
  return {
    endpoint,
    key,
    port: Number(new URL(endpoint).port),
    pid: child.pid,
    connectionString: `AccountEndpoint=${endpoint};AccountKey=${key};`,
    async stop() {
      child.ref();
      const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS_MAX);
      child.stdin.end();
      await ended;
      clearTimeout(timer);
    },
  };
}

/** What the server says when it is ready; an error in one sentence if it does not become so. */
function announcement(program, child) {
  return new Promise((resolve, reject) => {
    let log = "";
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      reject(new Error(`orrery: the server was not ready after ${START_MS_MAX / 1000} s`));
    }, START_MS_MAX);
    child.stdin.on("error", () => {});
    child.stderr.on("data", (text) => (log = (log + text).slice(-4096)));
    createInterface({ input: child.stdout }).once("line", (line) => {
      clearTimeout(timer);
      resolve(JSON.parse(line));
    });
    child.once("error", (error) => {
      clearTimeout(timer);
      reject(new Error(`orrery: ${program} cannot be started: ${error.message}`));
    });
    child.once("close", (code) => {
      clearTimeout(timer);
      reject(new Error(`orrery: the server did not start: ${log.trim() || `exit code ${code}`}`));
    });
  });
}
