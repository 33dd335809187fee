// What is open: one tab for each thing, named by a route that is also the page's address, so that
// going back and reloading lead to the same place. Without an active tab the home page is shown.
import { computed, effect, signal } from "@preact/signals";
import type { ScriptKind } from "../protocol/resources";

export type Route =
  | { kind: "database" | "users" | "model"; database: string }
  | { kind: "items" | "query" | "feed" | "settings"; database: string; container: string }
  | { kind: "script"; database: string; container: string; scripts: ScriptKind; script: string }
  | { kind: "metrics" | "nodes" | "roles" };

export interface Tab {
  address: string;
  route: Route;
}

export const tabs = signal<readonly Tab[]>([]);
export const activeAddress = signal<string | null>(null);
export const activeTab = computed(() => tabs.value.find(({ address }) => address === activeAddress.value) ?? null);

/** A script that is not saved yet; no script can have an empty id. */
export const NEW_SCRIPT = "";

export function addressOf(route: Route): string {
  const parts: string[] =
    !("database" in route) ? [route.kind]
    : !("container" in route) ? [route.kind, route.database]
    : route.kind === "script" ? ["script", route.database, route.container, route.scripts, route.script]
    : [route.kind, route.database, route.container];
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

export function routeOf(address: string): Route | null {
  if (!address.startsWith("#/")) return null;
  let parts: string[];
  try {
    parts = address.slice(2).split("/").map(decodeURIComponent);
  } catch {
    return null;
  }
  const [kind, database, container, scripts, script] = parts;
  if (kind === "metrics" || kind === "nodes" || kind === "roles") return { kind };
  if (!database) return null;
  if (kind === "database" || kind === "users" || kind === "model") return { kind, database };
  if (!container) return null;
  if (kind === "items" || kind === "query" || kind === "feed" || kind === "settings") return { kind, database, container };
  if (kind === "script" && (scripts === "sprocs" || scripts === "triggers" || scripts === "udfs")) {
    return { kind, database, container, scripts, script: script ?? NEW_SCRIPT };
  }
  return null;
}

export function open(route: Route): void {
  const address = addressOf(route);
  if (!tabs.value.some((tab) => tab.address === address)) tabs.value = [...tabs.value, { address, route }];
  activeAddress.value = address;
}

export function close(address: string): void {
  const index = tabs.value.findIndex((tab) => tab.address === address);
  if (index < 0) return;
  tabs.value = tabs.value.filter((tab) => tab.address !== address);
  if (activeAddress.value === address) {
    activeAddress.value = (tabs.value[index] ?? tabs.value[index - 1])?.address ?? null;
  }
}

/** Closes everything that shows a thing that is gone. */
export function closeAll(isGone: (route: Route) => boolean): void {
  for (const { address, route } of tabs.value) if (isGone(route)) close(address);
}

export function closeTabs(): void {
  tabs.value = [];
  activeAddress.value = null;
}

/** The addresses of the tabs, as they are kept over a reload. */
export function writeTabs(): string {
  return JSON.stringify(tabs.value.map(({ address }) => address));
}

/** Opens the tabs that were written down, none of them in front. */
export function readTabs(text: string): void {
  let addresses: unknown;
  try {
    addresses = JSON.parse(text);
  } catch {
    return;
  }
  const known = new Set(tabs.value.map(({ address }) => address));
  const restored: Tab[] = [];
  for (const address of Array.isArray(addresses) ? addresses : []) {
    const route = typeof address === "string" ? routeOf(address) : null;
    if (route === null || known.has(addressOf(route))) continue;
    known.add(addressOf(route));
    restored.push({ address: addressOf(route), route });
  }
  tabs.value = [...tabs.value, ...restored];
}

const STORED_TABS = "orrery.tabs";

/** Ties tabs, the page's address and the session's storage together, until what it returns is called. */
export function followAddress(): () => void {
  const go = () => {
    const route = routeOf(location.hash);
    if (route) open(route);
    else activeAddress.value = null;
  };
  readTabs(sessionStorage.getItem(STORED_TABS) ?? "[]");
  go();
  window.addEventListener("hashchange", go);
  const stops = [
    effect(() => {
      const address = activeAddress.value ?? "#/";
      if (location.hash !== address) history.pushState(null, "", address);
    }),
    effect(() => sessionStorage.setItem(STORED_TABS, writeTabs())),
  ];
  return () => {
    window.removeEventListener("hashchange", go);
    for (const stop of stops) stop();
  };
}
