// The page in a real browser against a real server; `cargo xtask explorer --test` gives both.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["e2e/**/*.test.ts"],
    environment: "node",
    testTimeout: 60_000,
    hookTimeout: 120_000,
    fileParallelism: false,
    // Tests of a file build on each other; after the first failure the rest says nothing.
    bail: 1,
  },
});
