// The tabs of what is open, as handles above the views.
import { useEffect, useRef } from "preact/hooks";
import { type Route, type Tab, activeAddress, close, tabs } from "../state/tabs";
import { isUnsaved } from "../state/unsaved";
import { confirmGivingUp } from "./dialog";
import { Icon, type IconName } from "./icon";

const ICONS: Record<Route["kind"], IconName> = {
  database: "database", users: "users", items: "items", query: "query", feed: "feed", settings: "settings",
  script: "script", metrics: "metrics", model: "model",
};

export function titleOf(route: Route): string {
  switch (route.kind) {
    case "metrics": return "Metrics";
    case "database": return route.database;
    case "users": return `${route.database} users`;
    case "model": return `${route.database} model`;
    case "script": return route.script || "New script";
    case "items": return route.container;
    case "query": return `${route.container} query`;
    case "feed": return `${route.container} changes`;
    case "settings": return `${route.container} settings`;
  }
}

function hintOf(route: Route): string {
  if (route.kind === "metrics") return "Metrics of the server";
  return "container" in route ? `${route.database} / ${route.container}` : route.database;
}

export function TabStrip() {
  const focusNeighbour = (event: KeyboardEvent) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const all = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=tab]")];
    const at = all.indexOf(document.activeElement as HTMLElement);
    if (at >= 0) all[(at + (event.key === "ArrowRight" ? 1 : all.length - 1)) % all.length]!.focus();
  };
  if (tabs.value.length === 0) return null;
  return (
    <div class="tabstrip" role="tablist" onKeyDown={focusNeighbour}>
      {tabs.value.map((tab) => <TabHandle key={tab.address} tab={tab} />)}
    </div>
  );
}

function TabHandle({ tab }: { tab: Tab }) {
  const isActive = tab.address === activeAddress.value;
  const handle = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (isActive) handle.current?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [isActive]);
  const shut = () => {
    if (isUnsaved(tab.address)) confirmGivingUp(`${titleOf(tab.route)} holds something that is not saved.`, () => close(tab.address));
    else close(tab.address);
  };
  return (
    <div ref={handle} class={isActive ? "tab active" : "tab"} title={hintOf(tab.route)} onAuxClick={(event) => event.button === 1 && shut()}>
      <button
        type="button" role="tab" aria-selected={isActive} tabIndex={isActive ? 0 : -1}
        onClick={() => (activeAddress.value = tab.address)}
        onKeyDown={(event) => event.key === "Delete" && shut()}
      >
        <Icon name={ICONS[tab.route.kind]} size={13} />{titleOf(tab.route)}
      </button>
      <button type="button" class="quiet" tabIndex={-1} aria-label={`Close ${titleOf(tab.route)}`} onClick={shut}><Icon name="close" size={11} /></button>
    </div>
  );
}
