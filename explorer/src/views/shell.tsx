// The workspace: the tree on the left, tabs on the right, the last request at the bottom.
import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { account, chargeTotal, disconnect, endpoint, lastRequest, requests } from "../state/account";
import { forgetCatalog, reloadAll } from "../state/catalog";
import { sidebarWidth } from "../state/preferences";
import { type Route, type Tab, activeAddress, activeTab, close, closeTabs, followAddress, open, tabs } from "../state/tabs";
import { guardLeaving, isUnsaved } from "../state/unsaved";
import { ContainerSettings } from "./container-settings";
import { DatabaseView } from "./database-view";
import { confirmGivingUp, openDialog } from "./dialog";
import { FeedView } from "./feed-view";
import { Icon, type IconName } from "./icon";
import { ItemsView } from "./items-view";
import { Mark } from "./mark";
import { MetricsView } from "./metrics-view";
import { ModelView } from "./model-view";
import { NewDatabase } from "./new-database";
import { QueryView } from "./query-view";
import { ScriptView } from "./script-view";
import { ThemeSwitch } from "./theme-switch";
import { Tree } from "./tree";
import { UsersView } from "./users-view";

/** On a phone the tree is a drawer. */
export const isDrawerOpen = signal(false);

export function Shell() {
  useEffect(followAddress, []);
  useEffect(guardLeaving, []);
  const leave = () => {
    closeTabs();
    forgetCatalog();
    disconnect();
  };
  return (
    <div class="shell">
      <header class="topbar">
        <button class="quiet only-narrow" type="button" aria-label="Show the tree" aria-expanded={isDrawerOpen.value}
          onClick={() => (isDrawerOpen.value = !isDrawerOpen.value)}>
          <Icon name="menu" />
        </button>
        <a class="brand" href="#/" onClick={() => (activeAddress.value = null)}><Mark size={26} /><b>Orrery</b></a>
        <span class="endpoint mono muted">{endpoint()}</span>
        <span class="grow" />
        <button class="quiet" type="button" onClick={() => open({ kind: "metrics" })}>
          <Icon name="metrics" /><span class="not-narrow">Metrics</span>
        </button>
        <ThemeSwitch />
        <button class="quiet" type="button" title="Disconnect and forget the key" onClick={leave}>
          <Icon name="leave" /><span class="not-narrow">Disconnect</span>
        </button>
      </header>
      <Sidebar />
      <main class="workspace">
        <TabStrip />
        {tabs.value.map((tab) => (
          <section key={tab.address} class="view" hidden={tab.address !== activeAddress.value} role="tabpanel" aria-label={titleOf(tab.route)}>
            <View route={tab.route} />
          </section>
        ))}
        {activeTab.value === null && <Welcome />}
      </main>
      <StatusBar />
    </div>
  );
}

function Sidebar() {
  const drag = (event: PointerEvent) => {
    const handle = event.currentTarget as HTMLElement;
    handle.setPointerCapture(event.pointerId);
    const move = (moved: PointerEvent) => (sidebarWidth.value = Math.min(520, Math.max(180, moved.clientX)));
    handle.addEventListener("pointermove", move);
    handle.addEventListener("pointerup", () => handle.removeEventListener("pointermove", move), { once: true });
  };
  return (
    <>
      {isDrawerOpen.value && <div class="scrim" onClick={() => (isDrawerOpen.value = false)} />}
      <nav class={isDrawerOpen.value ? "sidebar open" : "sidebar"} style={{ "--width": `${sidebarWidth.value}px` }} aria-label="Databases">
        <div class="sidebar-head">
          <span class="overline">Databases</span>
          <span class="grow" />
          <button class="quiet" type="button" title="Fetch everything again" aria-label="Refresh" onClick={() => void reloadAll()}>
            <Icon name="refresh" />
          </button>
          <button class="quiet" type="button" title="New database" aria-label="New database" onClick={() => openDialog(<NewDatabase />)}>
            <Icon name="plus" />
          </button>
        </div>
        <Tree onOpen={() => (isDrawerOpen.value = false)} />
        <div class="sidebar-edge" onPointerDown={drag} />
      </nav>
    </>
  );
}

const ICONS: Record<Route["kind"], IconName> = {
  database: "database", users: "users", items: "items", query: "query", feed: "feed", settings: "settings",
  script: "script", metrics: "metrics", model: "model",
};

function titleOf(route: Route): string {
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

function TabStrip() {
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

function View({ route }: { route: Route }) {
  switch (route.kind) {
    case "metrics": return <MetricsView />;
    case "database": return <DatabaseView database={route.database} />;
    case "users": return <UsersView database={route.database} />;
    case "model": return <ModelView database={route.database} />;
    case "items": return <ItemsView {...route} />;
    case "query": return <QueryView {...route} />;
    case "feed": return <FeedView {...route} />;
    case "settings": return <ContainerSettings {...route} />;
    case "script": return <ScriptView {...route} />;
  }
}

function Welcome() {
  return (
    <div class="welcome">
      <Mark size={120} />
      <p>
        <span class="not-narrow">Choose a container on the left</span>
        <button type="button" class="link only-narrow" onClick={() => (isDrawerOpen.value = true)}>Choose a container</button>, or <button type="button" class="link" onClick={() => openDialog(<NewDatabase />)}>make a database</button>.
      </p>
    </div>
  );
}

function StatusBar() {
  const isOpen = useSignal(false);
  const last = lastRequest.value;
  return (
    <footer class="statusbar">
      {isOpen.value && <RequestLog />}
      <span>{account.value?.name}</span>
      <span class="not-narrow">{account.value?.consistency} consistency</span>
      <span class="grow" />
      {last && (
        <button type="button" class="quiet mono" aria-expanded={isOpen.value} onClick={() => (isOpen.value = !isOpen.value)} title="The latest requests of this page">
          <span class={last.status >= 400 ? "bad" : ""}>{last.status}</span> {last.method} {last.what}
          <b>{last.charge.toFixed(2)} RU</b><b>{last.elapsedMs.toFixed(0)} ms</b>
        </button>
      )}
      <span class="mono" title="Charge of everything this page has done">Σ {chargeTotal.value.toFixed(1)} RU</span>
    </footer>
  );
}

function RequestLog() {
  return (
    <div class="request-log">
      <table class="plain">
        <thead><tr><th>Time</th><th>Request</th><th>Status</th><th class="number">RU</th><th class="number">ms</th></tr></thead>
        <tbody>
          {requests.value.map((request, index) => (
            <tr key={requests.value.length - index}>
              <td>{request.at.toLocaleTimeString()}</td>
              <td class="mono">{request.method} {decodeURIComponent(request.path)} {request.what && <i>{request.what}</i>}</td>
              <td class={request.status >= 400 ? "bad" : ""}>{request.status}</td>
              <td class="number">{request.charge.toFixed(2)}</td>
              <td class="number">{request.elapsedMs.toFixed(0)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
