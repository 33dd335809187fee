// The workspace: the tree on the left, tabs on the right, the last request at the bottom.
import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { disconnect, endpoint } from "../state/account";
import { forgetCatalog, reloadAll } from "../state/catalog";
import { sidebarWidth } from "../state/preferences";
import { type Route, activeAddress, activeTab, closeTabs, followAddress, open, tabs } from "../state/tabs";
import { guardLeaving } from "../state/unsaved";
import { ContainerSettings } from "./container-settings";
import { DatabaseView } from "./database-view";
import { openDialog } from "./dialog";
import { FeedView } from "./feed-view";
import { HomeView } from "./home-view";
import { Icon } from "./icon";
import { ItemsView } from "./items-view";
import { Mark } from "./mark";
import { MetricsView } from "./metrics-view";
import { ModelView } from "./model-view";
import { NewDatabase } from "./new-database";
import { NodesView } from "./nodes-view";
import { QueryView } from "./query-view";
import { RolesView } from "./roles-view";
import { ScriptView } from "./script-view";
import { StatusBar } from "./status-bar";
import { TabStrip, panelId, tabId } from "./tab-strip";
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
        <button class="quiet" type="button" aria-label="Roles" onClick={() => open({ kind: "roles" })}>
          <Icon name="users" /><span class="not-narrow">Roles</span>
        </button>
        <button class="quiet" type="button" aria-label="Nodes" onClick={() => open({ kind: "nodes" })}>
          <Icon name="nodes" /><span class="not-narrow">Nodes</span>
        </button>
        <button class="quiet" type="button" aria-label="Metrics" onClick={() => open({ kind: "metrics" })}>
          <Icon name="metrics" /><span class="not-narrow">Metrics</span>
        </button>
        <ThemeSwitch />
        <button class="quiet" type="button" aria-label="Disconnect" title="Disconnect and forget the key" onClick={leave}>
          <Icon name="leave" /><span class="not-narrow">Disconnect</span>
        </button>
      </header>
      <Sidebar />
      <main class="workspace">
        <TabStrip />
        <Panels />
        {activeTab.value === null && <HomeView />}
      </main>
      <StatusBar />
    </div>
  );
}

function Sidebar() {
  const wanted = useSignal("");
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
          <button class="quiet" type="button" title="Refresh" aria-label="Refresh" onClick={() => void reloadAll()}>
            <Icon name="refresh" />
          </button>
          <button class="quiet" type="button" title="New database" aria-label="New database" onClick={() => openDialog(<NewDatabase />)}>
            <Icon name="plus" />
          </button>
        </div>
        <div class="tree-search">
          <input type="search" aria-label="Search databases and containers" placeholder="Search" autocomplete="off" spellcheck={false} value={wanted.value} onInput={(event) => (wanted.value = event.currentTarget.value)} />
        </div>
        <Tree wanted={wanted.value} onOpen={() => (isDrawerOpen.value = false)} />
        <div class="sidebar-edge" onPointerDown={drag} />
      </nav>
    </>
  );
}

/** A view is made when its tab is first shown: tabs that a reload has restored ask for nothing. */
function Panels() {
  const shown = useRef(new Set<string>());
  if (activeAddress.value !== null) shown.current.add(activeAddress.value);
  for (const address of shown.current) {
    if (!tabs.value.some((tab) => tab.address === address)) shown.current.delete(address);
  }
  return (
    <>
      {tabs.value.filter(({ address }) => shown.current.has(address)).map(({ address, route }) => (
        <section key={address} class="view" id={panelId(address)} role="tabpanel" aria-labelledby={tabId(address)} hidden={address !== activeAddress.value}>
          <View route={route} />
        </section>
      ))}
    </>
  );
}

function View({ route }: { route: Route }) {
  switch (route.kind) {
    case "metrics": return <MetricsView />;
    case "nodes": return <NodesView />;
    case "roles": return <RolesView />;
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
