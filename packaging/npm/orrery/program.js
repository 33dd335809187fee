// Finds the program: ORRERY_BINARY, else the package of this platform, which npm installs as an optional
// dependency.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);

export function findProgram() {
  const named = process.env.ORRERY_BINARY;
  if (named) {
    if (!existsSync(named)) throw new Error(`ORRERY_BINARY is '${named}', and there is no such file`);
    return named;
  }
  const platform = `${process.platform}-${process.arch}`;
  const file = process.platform === "win32" ? "orrery.exe" : "orrery";
  let program;
  try {
    program = require.resolve(`@orrery/${platform}/bin/${file}`);
  } catch {
    throw new Error(
      `the package @orrery/${platform} is not installed; install without --omit=optional, or set ORRERY_BINARY ` +
        `(there are packages for linux-x64 and those that the release lists)`,
    );
  }
  const { glibc } = require(`@orrery/${platform}/package.json`);
  const found = glibc && process.report?.getReport().header.glibcVersionRuntime;
  if (found && isOlder(found, glibc)) {
    throw new Error(`this system has glibc ${found}, and the program needs ${glibc}; use the container image, or build from source`);
  }
  return program;
}

/** Whether a version such as 2.17 is before another one. */
function isOlder(version, other) {
  const [a, b] = [version, other].map((text) => text.split(".").map(Number));
  return a[0] !== b[0] ? a[0] < b[0] : a[1] < b[1];
}
