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
  try {
    return require.resolve(`@orrery/${platform}/bin/${file}`);
  } catch {
    throw new Error(
      `the package @orrery/${platform} is not installed; install without --omit=optional, or set ORRERY_BINARY ` +
        `(there are packages for linux-x64 and those that the release lists)`,
    );
  }
}
