// Builds the page into dist/page, where the server embeds it. `npm run dev` serves the sources
// instead and passes everything else on to a server that runs already.
import { defineConfig } from "vite";

export default defineConfig({
  base: "/_explorer/",
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
