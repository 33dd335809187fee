#!/usr/bin/env node
// `npx orrery`: the program with the same arguments; signals and exit code pass through.
import { spawn } from "node:child_process";
import { findProgram } from "../program.js";

let program;
try {
  program = findProgram();
} catch (error) {
  console.error(`orrery: ${error.message}`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`orrery: ${program} cannot be started: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? (signal === "SIGINT" ? 130 : 1)));
