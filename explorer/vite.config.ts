// Builds the page into dist/page, where the server embeds it. `npm run dev` serves the sources
// instead and passes everything else on to a server that runs already.
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { type Plugin, defineConfig } from "vite";

/** Writes the licences of everything that ends up in the page into a file beside it. */
function licences(): Plugin {
  return {
    name: "licences",
    generateBundle(_, bundle) {
      const packages = new Set<string>();
      for (const chunk of Object.values(bundle)) {
        for (const id of chunk.type === "chunk" ? chunk.moduleIds : []) {
          const folder = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0];
          if (folder && existsSync(join(folder, "package.json"))) packages.add(folder);
        }
      }
      const source = [...packages].sort().map(licenceOf).join(`\n\n${"-".repeat(79)}\n\n`);
      this.emitFile({ type: "asset", fileName: "licences.txt", source });
    },
  };
}

function licenceOf(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) throw new Error(`${name} has no licence file`);
  return `${name} ${version}, ${license}\n\n${readFileSync(join(folder, file), "utf8").trim()}`;
}

/** Less than this is sent as it is. */
const COMPRESSED_BYTES_MIN = 1000;

/** Puts a compressed copy beside each file, so that the server need not compress. */
function compressed(): Plugin {
  return {
    name: "compressed",
    writeBundle({ dir }, bundle) {
      for (const name of Object.keys(bundle)) {
        const path = join(dir!, name);
        const bytes = readFileSync(path);
        if (bytes.length >= COMPRESSED_BYTES_MIN) writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  base: "/_explorer/",
  plugins: [licences(), compressed()],
  build: {
    outDir: "dist/page",
    emptyOutDir: true,
    target: "es2022",
    // Everything comes from files: the page's security policy permits no inline data.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 1200,
  },
  server: {
    proxy: {
      "^/(?!_explorer/)": { target: process.env.ORRERY_ENDPOINT ?? "http://localhost:8081" },
    },
  },
});
